import { X509Certificate } from "node:crypto";
import { type ConnectionOptions, checkServerIdentity } from "node:tls";
import { CertificateError, parseCertificates, spiffeId } from "./certificates.ts";

const CONTROLLER = /^spiffe:\/\/([^/?#]+)\/controller\/[^/?#]+$/i;
const TRUST_DOMAIN = /^spiffe:\/\/([^/?#]+)\/?$/i;

/**
 * Why a certificate is not a controller's. A SPIFFE id in it has to be a controller's, in a trust domain of the anchors if they name one. A certificate
 * without a SPIFFE id passes (docs/protocol/identity.md "SPIFFE ids").
 */
export function controllerIdProblem(
  leaf: X509Certificate,
  anchors: readonly X509Certificate[],
): CertificateError | undefined {
  let id: string | undefined;
  try {
    id = spiffeId(leaf);
  } catch (error) {
    if (!(error instanceof CertificateError)) throw error;
    return new CertificateError("NOT_A_CONTROLLER", `expected the certificate of a controller: ${error.message}`);
  }
  if (id === undefined) return undefined;
  const domain = CONTROLLER.exec(id)?.[1]?.toLowerCase();
  const domains = anchors.flatMap(trustDomainOf);
  if (domain !== undefined && (domains.length === 0 || domains.includes(domain))) return undefined;
  const expected = domains.length === 0 ? "" : ` of the trust domain ${domains.join(" or ")}`;
  return new CertificateError(
    "NOT_A_CONTROLLER",
    `expected the certificate of a controller${expected}, got one for ${id}: another component answers in its place`,
  );
}

function trustDomainOf(anchor: X509Certificate): string[] {
  try {
    const domain = TRUST_DOMAIN.exec(spiffeId(anchor) ?? "")?.[1];
    return domain === undefined ? [] : [domain.toLowerCase()];
  } catch {
    // An authority whose names cannot be read names no trust domain.
    return [];
  }
}

/** The TLS option with which a client checks that a controller answers: its host name as ever, and {@link controllerIdProblem}. */
export function controllerCheck(
  anchors: readonly X509Certificate[],
): NonNullable<ConnectionOptions["checkServerIdentity"]> {
  return (host, peer) => checkServerIdentity(host, peer) ?? controllerIdProblem(new X509Certificate(peer.raw), anchors);
}

/** TLS options of a client that dials a controller and trusts the authorities of a bundle (PEM); those of the system when it is empty. */
export function controllerTrust(
  caPem: string,
): Pick<ConnectionOptions, "ca" | "allowPartialTrustChain" | "checkServerIdentity"> {
  if (caPem.trim() === "") return { checkServerIdentity: controllerCheck([]) };
  // Every CA of the bundle is an anchor, also one that did not sign itself.
  return {
    ca: caPem,
    allowPartialTrustChain: true,
    checkServerIdentity: (host, peer) => controllerCheck(parseCertificates(caPem))(host, peer),
  };
}
