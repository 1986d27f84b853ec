import { apiTime, type identityDetail, notFound } from "@sallyport/api";
import type { z } from "zod";
import { type IdentityRow, isDisabled } from "../../model/identity/identities.ts";
import type { EnrollmentMethod } from "../../store/schema.ts";
import { Statement } from "../../store/statement.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { baseOf } from "./base.ts";
import { identityLinks, ref } from "./links.ts";

export type IdentityDetail = z.input<typeof identityDetail>;

/** An identity with what is shown of it from other tables. */
interface ShownIdentity extends IdentityRow {
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

/** Identities with all that is shown with them, in the order of their ids and read in one statement; those that are gone are left out. */
export async function renderIdentities(deps: ApiDependencies, ids: readonly string[]): Promise<IdentityDetail[]> {
  if (ids.length === 0) return [];
  const rows = await SHOWN.rows(deps.ctx.store.db, [ids]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => {
    const row = byId.get(id);
    return row === undefined ? [] : [renderIdentity(deps, row)];
  });
}

/** One identity. @throws ApiError 404 */
export async function showIdentity(deps: ApiDependencies, id: string): Promise<IdentityDetail> {
  const [shown] = await renderIdentities(deps, [id]);
  if (shown === undefined) throw notFound("identity", id);
  return shown;
}

function renderIdentity(deps: ApiDependencies, row: ShownIdentity): IdentityDetail {
  const disabled = isDisabled(row, deps.ctx.now());
  const connection = deps.fabric.identityConnection(row.id);
  return {
    ...baseOf("identities", row),
    _links: identityLinks(row.id, row.auth_policy_id),
    appData: row.app_data,
    authPolicy: ref("auth-policies", row.auth_policy_id, row.policy_name ?? undefined),
    authPolicyId: row.auth_policy_id,
    authenticators: authenticatorsOf(row),
    defaultHostingCost: row.default_hosting_cost,
    defaultHostingPrecedence: row.default_hosting_precedence,
    disabled,
    ...(disabled && row.disabled_at !== null ? { disabledAt: apiTime(row.disabled_at) } : {}),
    ...(disabled && row.disabled_until !== null ? { disabledUntil: apiTime(row.disabled_until) } : {}),
    edgeRouterConnectionStatus: connection,
    enrollment: enrollmentsOf(row),
    envInfo: row.env_info ?? {},
    externalId: row.external_id,
    hasApiSession: row.has_session,
    hasEdgeRouterConnection: connection === "online",
    isAdmin: row.is_admin,
    isDefaultAdmin: row.is_default_admin,
    isMfaEnabled: row.has_mfa,
    name: row.name,
    permissions: row.permissions,
    roleAttributes: row.attrs,
    sdkInfo: row.sdk_info ?? {},
    serviceHostingCosts: row.service_hosting_costs,
    serviceHostingPrecedences: row.service_hosting_precedences,
    type: ref("identity-types", row.type_id, row.type_id),
    typeId: row.type_id,
  };
}

function authenticatorsOf({ authenticators }: ShownIdentity): IdentityDetail["authenticators"] {
  const shown: IdentityDetail["authenticators"] = {};
  for (const { id, method, fingerprint, username } of authenticators) {
    if (method === "cert") shown.cert = { id, fingerprint: fingerprint ?? "" };
    else shown.updb = { id, username: username ?? "" };
  }
  return shown;
}

function enrollmentsOf({ enrollments }: ShownIdentity): IdentityDetail["enrollment"] {
  const shown: IdentityDetail["enrollment"] = {};
  for (const { id, method, token, jwt, expires_at, ca_id, ca_name } of enrollments) {
    const common = { id, token, jwt, expiresAt: apiTime(new Date(expires_at)) };
    if (method === "ott") shown.ott = common;
    else if (method === "updb") shown.updb = common;
    else if (method === "ottca") {
      shown.ottca = ca_id === null ? common : { ...common, caId: ca_id, ca: ref("cas", ca_id, ca_name ?? undefined) };
    }
  }
  return shown;
}
