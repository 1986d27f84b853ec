import type { X509Certificate } from "node:crypto";
import { CertificateError, parseCertificates, verifyLeaf } from "@sallyport/wire";
import type { Db } from "../model/context.ts";

/** How a presented certificate was found trustworthy. */
export interface CertificateTrust {
  readonly leaf: X509Certificate;
  /** It chains to a root by what was presented; false: only with the help of our own intermediates. */
  readonly isProperChain: boolean;
  /** The registered CA that issued it; absent when the network did. */
  readonly caId?: string;
}

/**
 * Judges the chain that a TLS client presented: only the leaf counts, and it must have been issued by the network or by a registered CA
 * that is verified and may authenticate. Its dates are not looked at here, the identity's policy decides about them.
 *
 * @returns undefined when nothing was presented or nobody vouches for it
 */
export async function trustOf(
  db: Db,
  presented: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
): Promise<CertificateTrust | undefined> {
  const [leaf, ...intermediates] = presented;
  if (leaf === undefined) return undefined;
  const roots = anchors.filter((anchor) => anchor.checkIssued(anchor));
  if (verifies(leaf, intermediates, roots)) return { leaf, isProperChain: true };
  if (verifies(leaf, intermediates, anchors)) return { leaf, isProperChain: false };
  const cas = await db
    .selectFrom("ca")
    .select(["id", "cert_pem"])
    .where("is_verified", "=", true)
    .where("is_auth_enabled", "=", true)
    .execute();
  const ca = cas.find((each) => verifies(leaf, intermediates, parseCertificates(each.cert_pem)));
  return ca === undefined ? undefined : { leaf, isProperChain: true, caId: ca.id };
}

function verifies(
  leaf: X509Certificate,
  intermediates: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
): boolean {
  try {
    verifyLeaf({ leaf, intermediates, anchors, ignoreDates: "leaf" });
    return true;
  } catch (error) {
    if (error instanceof CertificateError) return false;
    throw error;
  }
}
