import { apiTime, type identityDetail, type ListQuery, type ListResult, notFound, orNull } from "@sallyport/api";
import type { RawBuilder, SqlBool } from "kysely";
import type { z } from "zod";
import { isDisabled } from "../../model/identity/identities.ts";
import { type ShownIdentity, shownIdentities } from "../../model/identity/shown-identities.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { IDENTITY_FIELDS } from "../lists/fields.ts";
import { listed } from "../lists/listing.ts";
import { baseOf, identityLinks, ref } from "./base.ts";

type IdentityDetail = z.input<typeof identityDetail>;

/** Identities with everything that the API shows with them, in the order of their ids; without deleted ones. */
async function renderIdentities(deps: ApiDependencies, ids: readonly string[]): Promise<IdentityDetail[]> {
  const rows = await shownIdentities(deps.ctx.store.db, ids);
  return rows.map((row) => renderIdentity(deps, row));
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
    ...(disabled && row.disabled_at && { disabledAt: apiTime(row.disabled_at) }),
    ...(disabled && row.disabled_until && { disabledUntil: apiTime(row.disabled_until) }),
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
    roleAttributes: orNull(row.attrs),
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

/** A page of all identities, or of those that fulfil a condition. The query finds the page by ids, and reads only its rows whole. */
export function listIdentities(
  deps: ApiDependencies,
  list: ListQuery,
  condition?: RawBuilder<SqlBool>,
): Promise<ListResult<IdentityDetail>> {
  const all = deps.ctx.store.db.selectFrom("identity").select("identity.id");
  const render = (rows: { id: string }[]) => {
    const ids = rows.map(({ id }) => id);
    return renderIdentities(deps, ids);
  };
  if (condition !== undefined) return listed(all.where(condition), "identity", IDENTITY_FIELDS, list, render);
  return listed(all, "identity", IDENTITY_FIELDS, list, render, () => deps.model.counts.of("identity"));
}
