import { apiError } from "@sallyport/api";
import type { Db } from "../../model/context.ts";
import type { AuthPolicyRow } from "../../model/identity/auth-policies.ts";
import type { ExtJwtSignerRow } from "../../model/identity/ext-jwt-signers.ts";
import { type IdentityRow, isDisabled } from "../../model/identity/identities.ts";
import type { ExternalIdClaim } from "../../pki/external-id-claim.ts";
import { Statement } from "../../store/driver/statement.ts";
import type { ProvedPassword } from "../password.ts";

/** An identity with everything that decides how it may authenticate. */
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
