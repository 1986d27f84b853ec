import { apiError } from "@sallyport/api";
import { type RawBuilder, sql } from "kysely";
import type { Db } from "../../model/context.ts";
import type { AuthPolicyRow } from "../../model/identity/auth-policies.ts";
import { storedClaim } from "../../model/identity/cas.ts";
import type { ExtJwtSignerRow } from "../../model/identity/ext-jwt-signers.ts";
import { type IdentityRow, isDisabled } from "../../model/identity/identities.ts";
import type { ExternalIdClaim } from "../../pki/external-id-claim.ts";
import { Statement } from "../../store/driver/statement.ts";
import { isStillRight, type ProvedPassword } from "../password.ts";

/** An identity with its auth policy and MFA state. */
export interface Principal {
  readonly identity: IdentityRow;
  readonly policy: AuthPolicyRow;
  /** It has completed a TOTP enrollment. */
  readonly isMfaVerified: boolean;
}

/** The identity that was proved to be calling, and the credential. */
export interface Proof {
  readonly principal: Principal;
  readonly authenticatorId: string;
  readonly password?: ProvedPassword;
  /** The external signer whose token it was. */
  readonly signer?: ExtJwtSignerRow;
  /** The registered authority that vouches for the certificate; `claim`: it vouches for the identity as well, so that there is no authenticator. */
  readonly caId?: string;
  readonly claim?: ExternalIdClaim;
  /** A router vouches for it, which counts for no administrator. */
  readonly isPassedOn?: boolean;
  readonly certFingerprints: readonly string[];
  readonly improperClientCertChain: boolean;
  /** An administrator has asked for the certificate in use to be extended. */
  readonly isExtendRequested: boolean;
}

/** A failed authentication: the caller learns nothing of `detail`, which is for the log. */
export function refused(detail: string): Error {
  return apiError("INVALID_AUTH", undefined, { detail });
}

const principalBy = (column: string) =>
  new Statement<{ identity: IdentityRow; policy: AuthPolicyRow; is_mfa_verified: boolean }>(`
    SELECT row_to_json(i) AS identity, row_to_json(p) AS policy, coalesce(m.is_verified, false) AS is_mfa_verified
    FROM identity i JOIN auth_policy p ON p.id = i.auth_policy_id LEFT JOIN mfa m ON m.identity_id = i.id
    WHERE i.${column} = $1`);
const PRINCIPALS = { id: principalBy("id"), external_id: principalBy("external_id") } as const;

/** The identity with this id, or with this external id; undefined when there is none. */
export async function findPrincipal(
  db: Db,
  column: "id" | "external_id",
  value: string,
): Promise<Principal | undefined> {
  const row = await PRINCIPALS[column].first(db, [value]);
  if (row === undefined) return undefined;
  return { identity: withDates(row.identity), policy: row.policy, isMfaVerified: row.is_mfa_verified };
}

/** @throws ApiError 401 when the identity is disabled */
export function requireEnabled({ identity }: Principal, at: Date): void {
  if (isDisabled(identity, at)) throw refused(`identity ${identity.id} is disabled`);
}

/** Rows read as JSON have their times as text. */
function withDates<T extends object>(row: T): T {
  const times = Object.entries(row)
    .filter(([key, value]) => typeof value === "string" && (key.endsWith("_at") || key === "disabled_until"))
    .map(([key, value]): [string, Date] => [key, new Date(value as string)]);
  return Object.assign(row, Object.fromEntries(times));
}

interface Standing {
  readonly is_admin: boolean;
  readonly external_id: string | null;
  readonly disabled_at: Date | null;
  readonly disabled_until: Date | null;
  readonly password_hash: string | null;
  readonly is_certificate: boolean;
  readonly is_signer: boolean;
}

/**
 * Checks again, in the transaction that makes the session, that identity and credential are unchanged since the proof: a password takes time to check. The
 * rows stay locked, so that a later withdrawal or replacement finds the session and ends it.
 * @throws ApiError 401
 */
export async function requireStanding(trx: Db, proof: Proof, at: Date): Promise<void> {
  const { principal, caId } = proof;
  // Before the authenticator, in the same order as the deletion of an authority.
  if (caId !== undefined) await requireAuthority(trx, caId, proof);
  const row = await requireRow<Standing>(trx, standing(proof, at));
  if (isDisabled(row, at)) throw refused(`identity ${principal.identity.id} was disabled while it logged in`);
  if (proof.isPassedOn === true && row.is_admin) {
    throw refused(`identity ${principal.identity.id} became an administrator while a router vouched for it`);
  }
  const isNamed = proof.claim !== undefined || proof.signer?.use_external_id === true;
  const isSame =
    (!isNamed || row.external_id === principal.identity.external_id) &&
    (proof.password === undefined || (await isStillRight(proof.password, row.password_hash))) &&
    row.is_certificate &&
    row.is_signer;
  if (!isSame) throw withdrawn();
}

/** It may authenticate, and names the same identity as before. */
async function requireAuthority(trx: Db, id: string, { claim }: Proof): Promise<void> {
  const row = await requireRow<Parameters<typeof storedClaim>[0]>(
    trx,
    sql`SELECT external_id_claim FROM ca WHERE id = ${id} AND is_auth_enabled FOR KEY SHARE`,
  );
  if (JSON.stringify(storedClaim(row)) !== JSON.stringify(claim ?? null)) throw withdrawn();
}

/** The identity joined with the row of its credential; the claim of an authority has none. */
function standing({ principal, authenticatorId, signer, claim, certFingerprints }: Proof, at: Date) {
  const { id } = principal.identity;
  const identity = sql`i.is_admin, i.external_id, i.disabled_at, i.disabled_until`;
  if (claim !== undefined) {
    return sql`SELECT ${identity}, NULL AS password_hash, true AS is_certificate, true AS is_signer
      FROM identity i WHERE i.id = ${id} FOR KEY SHARE`;
  }
  if (signer !== undefined) {
    return sql`SELECT ${identity}, NULL AS password_hash, true AS is_certificate, s.issuer = ${signer.issuer}
        AND s.use_external_id = ${signer.use_external_id} AND s.claims_property IS NOT DISTINCT FROM ${signer.claims_property} AS is_signer
      FROM identity i JOIN ext_jwt_signer s ON s.id = ${signer.id} AND s.enabled WHERE i.id = ${id} FOR KEY SHARE`;
  }
  // A new password is an update that leaves the key alone: only SHARE keeps it waiting.
  return sql`SELECT ${identity}, a.password_hash, true AS is_signer, a.method <> 'cert' OR a.fingerprint = ANY (${certFingerprints}::text[])
      OR (a.unverified_fingerprint = ANY (${certFingerprints}::text[]) AND a.unverified_counts_until > ${at}) AS is_certificate
    FROM identity i JOIN authenticator a ON a.id = ${authenticatorId} AND a.identity_id = i.id
    WHERE i.id = ${id} FOR KEY SHARE OF i FOR SHARE OF a`;
}

async function requireRow<T>(trx: Db, query: RawBuilder<unknown>): Promise<T> {
  const { rows } = await (query as RawBuilder<T>).execute(trx);
  const [row] = rows;
  if (row === undefined) throw withdrawn();
  return row;
}

function withdrawn(): Error {
  return refused("the credential was withdrawn while it was checked");
}
