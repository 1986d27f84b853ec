import type { EnrollmentMethod } from "../../store/schema.ts";
import { Statement } from "../../store/statement.ts";
import type { Db } from "../context.ts";
import type { IdentityRow } from "./identities.ts";

/** An identity with what is shown of it from other tables. */
export interface ShownIdentity extends IdentityRow {
  policy_name: string | null;
  has_session: boolean;
  has_mfa: boolean;
  env_info: Record<string, string> | null;
  sdk_info: Record<string, string> | null;
  authenticators: { id: string; method: "cert" | "updb"; fingerprint: string | null; username: string | null }[];
  enrollments: {
    id: string;
    method: EnrollmentMethod;
    token: string;
    jwt: string;
    expires_at: string;
    ca_id: string | null;
    ca_name: string | null;
  }[];
}

const SHOWN = new Statement<ShownIdentity>(`
  SELECT i.*, (SELECT p.name FROM auth_policy p WHERE p.id = i.auth_policy_id) AS policy_name,
    EXISTS (SELECT 1 FROM api_session s WHERE s.identity_id = i.id) AS has_session,
    EXISTS (SELECT 1 FROM mfa m WHERE m.identity_id = i.id AND m.is_verified) AS has_mfa, f.env_info, f.sdk_info,
    coalesce((SELECT json_agg(json_build_object('id', a.id, 'method', a.method, 'fingerprint', a.fingerprint,
      'username', a.username) ORDER BY a.id) FROM authenticator a WHERE a.identity_id = i.id), '[]') AS authenticators,
    coalesce((SELECT json_agg(json_build_object('id', e.id, 'method', e.method, 'token', e.token, 'jwt', e.jwt,
      'expires_at', e.expires_at, 'ca_id', e.ca_id, 'ca_name', c.name) ORDER BY e.id)
      FROM enrollment e LEFT JOIN ca c ON c.id = e.ca_id WHERE e.identity_id = i.id), '[]') AS enrollments
  FROM identity i LEFT JOIN identity_info f ON f.identity_id = i.id
  WHERE i.id = ANY ($1::text[])`);

/** In the order of the ids, read in one statement; those that are gone are left out. */
export async function shownIdentities(db: Db, ids: readonly string[]): Promise<ShownIdentity[]> {
  if (ids.length === 0) return [];
  const rows = await SHOWN.rows(db, [ids]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => byId.get(id) ?? []);
}
