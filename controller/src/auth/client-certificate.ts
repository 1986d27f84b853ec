import type { X509Certificate } from "node:crypto";
import { apiError, unhandledCause } from "@sallyport/api";
import type { Db } from "../model/context.ts";
import { storedClaim } from "../model/identity/cas.ts";
import { readCsr } from "../pki/csr.ts";
import type { ExternalIdClaim } from "../pki/external-id-claim.ts";
import { issuingAuthority, searchIssuer } from "../pki/third-party-ca.ts";

/** How a presented certificate was found trustworthy. */
export interface CertificateTrust {
  readonly leaf: X509Certificate;
  /** It chains to a root by what was presented; false: only with the help of our own intermediates. */
  readonly isProperChain: boolean;
  /** The registered CA that issued it; absent when the network did. */
  readonly ca?: { readonly id: string; readonly claim: ExternalIdClaim | null };
}

/**
 * Checks the chain that a TLS client presented. It starts at the leaf, whose key the handshake proved, and must end at the network, or at a registered CA
 * that is verified and may authenticate (docs/protocol/certificate-login.md). The identity's policy decides about the leaf's dates.
 * @param caId the CA through which the leaf was enrolled: no other one can vouch for it
 */
export async function trustOf(
  db: Db,
  presented: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
  at: Date,
  caId?: string,
): Promise<CertificateTrust | undefined> {
  const [leaf] = presented;
  const search = searchIssuer(presented, at);
  if (leaf === undefined || search === undefined) return undefined;
  if (caId === undefined) {
    const roots = anchors.filter((anchor) => anchor.checkIssued(anchor));
    if (search.under(roots) !== undefined) return { leaf, isProperChain: true };
    if (search.under(anchors) !== undefined) return { leaf, isProperChain: false };
  }
  const ca = issuingAuthority(search, await usableCas(db, caId));
  return ca && { leaf, isProperChain: true, ca: { id: ca.id, claim: storedClaim(ca) } };
}

/** The registered authorities whose holders may authenticate, oldest first; only the one with this id, if one is named. */
export async function usableCas(db: Db, caId?: string) {
  let usable = db
    .selectFrom("ca")
    .select(["id", "cert_pem", "external_id_claim"])
    .where("is_verified", "=", true)
    .where("is_auth_enabled", "=", true);
  if (caId !== undefined) usable = usable.where("id", "=", caId);
  return await usable.orderBy("created_at").orderBy("id").execute();
}

/** The leaf that a TLS client presented, if this network has issued it. Does not read the database. */
export function networkLeaf(
  presented: readonly X509Certificate[],
  anchors: readonly X509Certificate[],
  at: Date,
): X509Certificate | undefined {
  return searchIssuer(presented, at)?.under(anchors) === undefined ? undefined : presented[0];
}

/** Errors of certificate requests that the API shows with their own code. */
const CSR_ERRORS = [
  "MISSING_OR_INVALID_CSR",
  "COULD_NOT_PROCESS_CSR",
  "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID",
] as const;

/** @throws ApiError 400 for a certificate request that cannot be used */
export async function requireCsr(pem: string): Promise<void> {
  await withCsrErrors(() => readCsr(pem));
}

/** Issues certificates. @throws ApiError 400 for a certificate request that cannot be used */
export async function withCsrErrors<T>(issue: () => Promise<T>): Promise<T> {
  try {
    return await issue();
  } catch (error) {
    const found = error instanceof Error && "code" in error ? error.code : undefined;
    const code = CSR_ERRORS.find((known) => known === found);
    throw code === undefined ? error : apiError(code, unhandledCause((error as Error).message));
  }
}
