import type { X509Certificate } from "node:crypto";
import { CertificateError, fingerprint, spiffeId } from "@sallyport/wire";

/** What decides which certificates a session's tokens need. */
export interface BoundSession {
  readonly id: string;
  readonly identity_id: string;
  /** Its tokens count only together with one of its certificates, also when none is left. */
  readonly is_bound: boolean;
  /** Prints of its certificates. */
  readonly cert_fingerprints: readonly string[];
  /** Prints of the certificates that the network issued for it, and that were not taken away. */
  readonly issued_fingerprints: readonly string[];
  /** The auth policy lets the certificates of a login count outside of their dates. */
  readonly cert_allow_expired: boolean;
}

/**
 * Whether a token of the session counts over a connection (docs/protocol/authentication.md, "Access tokens"). The certificate is one of the session's, or one
 * that the network issued for this session. Of what a client presents only the leaf proves a key.
 * @param leaf of the connection, or the one that an edge router vouches for
 * @param isOfNetwork whether this network has issued the leaf; asked only for one that names the session
 */
export function isBoundTo(
  session: BoundSession,
  leaf: X509Certificate | undefined,
  { at, isOfNetwork }: { readonly at: Date; isOfNetwork(leaf: X509Certificate): boolean },
): boolean {
  if (!session.is_bound) return true;
  if (leaf === undefined) return false;
  const { validFrom, validTo, print } = read(leaf);
  const isValid = validFrom <= at && at <= validTo;
  if (session.cert_fingerprints.includes(print)) return isValid || session.cert_allow_expired;
  return isValid && session.issued_fingerprints.includes(print) && names(leaf, session) && isOfNetwork(leaf);
}

interface ReadLeaf {
  readonly validFrom: Date;
  readonly validTo: Date;
  readonly print: string;
}

/** A connection shows the same certificate with every request: it is parsed and hashed once. */
const leaves = new WeakMap<X509Certificate, ReadLeaf>();

function read(leaf: X509Certificate): ReadLeaf {
  let known = leaves.get(leaf);
  if (known === undefined) {
    known = { validFrom: leaf.validFromDate, validTo: leaf.validToDate, print: fingerprint(leaf) };
    leaves.set(leaf, known);
  }
  return known;
}

/** Routers, too, compare the path and not the trust domain. */
function names(leaf: X509Certificate, { id, identity_id }: BoundSession): boolean {
  let found: string | undefined;
  try {
    found = spiffeId(leaf);
  } catch (error) {
    if (error instanceof CertificateError) return false;
    throw error;
  }
  const [identity, identityId, apiSession, sessionId, certificate, certificateId, ...more] =
    /^spiffe:\/\/[^/?#]+\/([^?#]+)$/i.exec(found ?? "")?.[1]?.split("/") ?? [];
  const isOfSession =
    identity === "identity" && identityId === identity_id && apiSession === "apiSession" && sessionId === id;
  if (!isOfSession || more.length > 0) return false;
  return certificate === undefined || (certificate === "apiSessionCertificate" && certificateId !== undefined);
}
