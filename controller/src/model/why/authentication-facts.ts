import { X509Certificate } from "node:crypto";
import { sql } from "kysely";
import { TOTP_OPEN } from "../../auth/factors.ts";
import { certificateRefusal } from "../../auth/primary/certificate-login.ts";
import type { AuthenticationFacts, Credential } from "../../policy/why/facts.ts";
import { Statement } from "../../store/driver/statement.ts";
import type { ApiSessionKind } from "../../store/session-tables.ts";
import type { Db, ModelContext } from "../context.ts";
import { type IdentityRow, isDisabled } from "../identity/identities.ts";
import type { ApiSessions } from "../session/api-sessions.ts";

/** API sessions of an identity that are looked at, newest first. */
const MAX_SESSIONS = 20;

interface PolicyRow {
  readonly id: string;
  readonly name: string;
  readonly cert_allowed: boolean;
  readonly cert_allow_expired: boolean;
  readonly updb_allowed: boolean;
  readonly require_totp: boolean;
  readonly required_signer: string | null;
  readonly is_mfa_verified: boolean;
  readonly is_proved_by_others: boolean;
  readonly authenticators: readonly AuthenticatorRow[] | null;
  readonly enrollments: { method: string; expires_at: string }[] | null;
}

interface AuthenticatorRow {
  readonly id: string;
  readonly method: "cert" | "updb";
  readonly cert_pem: string | null;
  readonly ca_id: string | null;
  readonly ca_name: string | null;
}

interface LiveSession {
  readonly id: string;
  readonly kind: ApiSessionKind;
  readonly created_at: Date;
  readonly last_activity_at: Date;
  readonly expires_at: Date | null;
  readonly is_totp_open: boolean;
}

export interface IdentitySession {
  readonly id: string;
  readonly kind: ApiSessionKind;
  readonly since: number;
  readonly isTotpOpen: boolean;
}

/** The API sessions of an identity that are alive, newest first; only the one with this id, if one is named. */
export async function liveSessions(
  db: Db,
  apiSessions: ApiSessions,
  identityId: string,
  apiSessionId?: string,
): Promise<IdentitySession[]> {
  const named = apiSessionId === undefined ? sql`true` : sql`a.id = ${apiSessionId}`;
  const { rows } = await sql<LiveSession>`
    SELECT a.id, a.kind, a.created_at, a.last_activity_at, a.expires_at, ${TOTP_OPEN} AS is_totp_open
    FROM api_session a JOIN identity i ON i.id = a.identity_id
    WHERE a.identity_id = ${identityId} AND (a.kind = 'legacy' OR a.access_until IS NOT NULL) AND ${named}
    ORDER BY a.created_at DESC LIMIT ${MAX_SESSIONS}`.execute(db);
  return rows
    .filter((row) => !apiSessions.isExpired(row))
    .map(({ id, kind, created_at, is_totp_open: isTotpOpen }) => ({
      id,
      kind,
      since: created_at.getTime(),
      isTotpOpen,
    }));
}

/** With the ways in which others may prove the identity (docs/protocol/authentication.md). */
const POLICY = new Statement<PolicyRow>(`
    SELECT p.id, p.name, p.cert_allowed, p.cert_allow_expired, p.updb_allowed, p.require_totp,
      p.require_ext_jwt_signer AS required_signer,
      EXISTS (SELECT 1 FROM mfa m WHERE m.identity_id = i.id AND m.is_verified) AS is_mfa_verified,
      (i.external_id IS NOT NULL AND (
        (p.cert_allowed AND EXISTS (SELECT 1 FROM ca c
          WHERE c.is_verified AND c.is_auth_enabled AND c.external_id_claim IS NOT NULL))
        OR (p.ext_jwt_allowed AND EXISTS (SELECT 1 FROM ext_jwt_signer s WHERE s.enabled AND s.use_external_id
          AND (cardinality(p.ext_jwt_signers) = 0 OR s.id = ANY (p.ext_jwt_signers)))))
        OR (p.ext_jwt_allowed AND NOT EXISTS (SELECT 1 FROM enrollment e WHERE e.identity_id = i.id)
          AND EXISTS (SELECT 1 FROM ext_jwt_signer s WHERE s.enabled AND NOT s.use_external_id
            AND (cardinality(p.ext_jwt_signers) = 0 OR s.id = ANY (p.ext_jwt_signers))))) AS is_proved_by_others,
      (SELECT json_agg(json_build_object('id', a.id, 'method', a.method, 'cert_pem', a.cert_pem,
          'ca_id', a.ca_id, 'ca_name', c.name) ORDER BY a.id)
        FROM authenticator a LEFT JOIN ca c ON c.id = a.ca_id WHERE a.identity_id = i.id) AS authenticators,
      (SELECT json_agg(json_build_object('method', e.method, 'expires_at', e.expires_at))
        FROM enrollment e WHERE e.identity_id = i.id) AS enrollments
    FROM identity i JOIN auth_policy p ON p.id = i.auth_policy_id WHERE i.id = $1`);

/** What decides whether the identity can log in. */
export async function authenticationFacts(
  ctx: ModelContext,
  identity: IdentityRow,
  apiSessions: readonly IdentitySession[],
): Promise<AuthenticationFacts> {
  const at = ctx.now();
  const row = await POLICY.first(ctx.store.db, [identity.id]);
  if (row === undefined) throw new Error(`identity ${identity.id} was removed while it was looked at`);
  const { disabled_at: since, disabled_until: until } = identity;
  return {
    ...(since !== null &&
      isDisabled(identity, at) && {
        disabled: { since: since.getTime(), ...(until !== null && { until: until.getTime() }) },
      }),
    policy: {
      ...{ id: row.id, name: row.name, requiresTotp: row.require_totp },
      ...(row.required_signer !== null && { requiredSigner: row.required_signer }),
    },
    authenticators: (row.authenticators ?? []).map((each) => credential(row, each, at)),
    isProvedByOthers: row.is_proved_by_others,
    enrollments: (row.enrollments ?? []).map(({ method, expires_at }) => ({
      method,
      expiresAt: Date.parse(expires_at),
    })),
    isTotpEnrolled: row.is_mfa_verified,
    apiSessions: apiSessions.map(({ id, isTotpOpen, since: at }) => ({ id, isTotpOpen, since: at })),
  };
}

function credential(policy: PolicyRow, row: AuthenticatorRow, at: Date): Credential {
  const { id, method, cert_pem: pem, ca_id, ca_name } = row;
  if (method === "updb") return { id, method, ...(policy.updb_allowed ? {} : { refusal: "forbidden" }) };
  if (pem === null) return { id, method, ...(policy.cert_allowed ? {} : { refusal: "forbidden" }) };
  const leaf = new X509Certificate(pem);
  const refusal = certificateRefusal(policy, leaf, at);
  return {
    ...{ id, method, startsAt: leaf.validFromDate.getTime(), endsAt: leaf.validToDate.getTime() },
    ...(ca_id !== null && { authority: { id: ca_id, name: ca_name ?? ca_id } }),
    ...(refusal && { refusal }),
  };
}
