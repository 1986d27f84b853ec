import {
  type apiSessionDetail,
  apiTime,
  type currentApiSessionDetail,
  type sessionCertificateDetail,
  type sessionManagementDetail,
} from "@sallyport/api";
import type { z } from "zod";
import type { ApiSessionContext, RequestInfo } from "../../http/context.ts";
import { namesOf } from "../../model/entity.ts";
import {
  type ApiSessionCertificateRow,
  type ApiSessionRow,
  shownWithApiSessions,
} from "../../model/session/api-sessions.ts";
import type { SessionRow } from "../../model/session/sessions.ts";
import { matches } from "../../policy/selector.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { only } from "../lists/listing.ts";
import { baseOf, identityRef, ref } from "./base.ts";
import { propertiesOf, stateForClients } from "./router.ts";

/** Routers that a session names. */
const MAX_ROUTERS = 25;

type ApiSessionDetail = z.input<typeof apiSessionDetail>;

export async function renderApiSessions(
  deps: ApiDependencies,
  rows: readonly ApiSessionRow[],
): Promise<ApiSessionDetail[]> {
  const ids = rows.map((row) => row.id);
  const further = await shownWithApiSessions(deps.ctx.store.db, ids);
  return rows.map((row) => {
    const shown = further.get(row.id);
    return {
      ...baseOf("api-sessions", row),
      authQueries: [],
      authenticatorId: row.authenticator_id,
      cachedLastActivityAt: apiTime(deps.model.apiSessions.lastActivity(row)),
      configTypes: row.config_types,
      identity: identityRef(row.identity_id, shown?.identity_name),
      identityId: row.identity_id,
      improperClientCertChain: row.improper_client_cert_chain,
      ipAddress: row.ip_address,
      isCertExtendRequested: shown?.is_extend_requested ?? false,
      isCertExtendable: shown?.is_issued_by_network ?? false,
      isCertKeyRollRequested: shown?.is_key_roll_requested ?? false,
      isMfaComplete: row.is_mfa_complete,
      isMfaRequired: row.is_mfa_required,
      lastActivityAt: apiTime(row.last_activity_at),
      // Its tokens are with its client.
      token: row.kind === "oidc" ? "" : row.token,
    };
  });
}

/** A session that was made right now, with when it ends and what is still to be proved. */
export async function renderNewApiSession(
  deps: ApiDependencies,
  row: ApiSessionRow,
  authQueries: ApiSessionContext["authQueries"],
): Promise<z.input<typeof currentApiSessionDetail>> {
  const { apiSessions } = deps.model;
  return {
    ...only(await renderApiSessions(deps, [row])),
    authQueries: [...authQueries],
    expirationSeconds: Math.floor(apiSessions.timeoutMs / 1000),
    expiresAt: apiTime(apiSessions.lastActivity(row).getTime() + apiSessions.timeoutMs),
  };
}

/** The caller's own session; one of an access token has the times of the token, and the address of the request. */
export async function renderCurrentApiSession(
  deps: ApiDependencies,
  row: ApiSessionRow,
  session: ApiSessionContext,
  { remoteAddress }: Pick<RequestInfo, "remoteAddress">,
): Promise<z.input<typeof currentApiSessionDetail>> {
  const { access, token, expirationSeconds, expiresAt } = session;
  const shown = await renderNewApiSession(deps, row, session.authQueries);
  if (access === undefined) return shown;
  const at = apiTime(access.issuedAt);
  const times = { createdAt: at, updatedAt: at, expirationSeconds, expiresAt: apiTime(expiresAt) };
  return { ...shown, ...times, token, ipAddress: remoteAddress };
}

export function renderSessionCertificate(row: ApiSessionCertificateRow): z.input<typeof sessionCertificateDetail> {
  return {
    ...baseOf("api-sessions", row),
    _links: { self: { href: `./current-api-session/certificates/${row.id}` } },
    certificate: row.cert_pem,
    fingerprint: row.fingerprint,
    subject: row.subject,
    validFrom: apiTime(row.valid_from),
    validTo: apiTime(row.valid_to),
  };
}

type SessionManagementDetail = z.input<typeof sessionManagementDetail>;

/** Sessions with the routers that identity and service have in common, those that are connected first. */
export async function renderSessions(
  deps: ApiDependencies,
  rows: readonly SessionRow[],
): Promise<SessionManagementDetail[]> {
  const { db } = deps.ctx.store;
  const identityIds = rows.map((row) => row.identity_id);
  const serviceIds = rows.map((row) => row.service_id);
  const identities = await identitiesById(deps, identityIds);
  const services = await namesOf(db, "service", serviceIds);
  const index = await deps.model.policy.current();
  const shown = rows.map((row) => {
    const identity = identities.get(row.identity_id) ?? { id: row.identity_id, attrs: [] };
    const granting = index
      .policiesOfService(row.service_id)
      .filter((policy) => policy.type === row.type && matches(policy.identities, policy.semantic, identity));
    return {
      row,
      policyIds: granting.map((policy) => policy.id),
      routerIds: connectedFirst(deps, index.routersFor(identity, row.service_id)),
    };
  });
  const policyIds = shown.flatMap((each) => each.policyIds);
  const routerIds = shown.flatMap((each) => each.routerIds);
  const policies = await namesOf(db, "service_policy", policyIds);
  const routers = await routersById(deps, routerIds);
  return shown.map(({ row, policyIds, routerIds }) => ({
    ...baseOf("sessions", row),
    apiSession: ref("api-sessions", row.api_session_id),
    apiSessionId: row.api_session_id,
    edgeRouters: routerIds.flatMap((id) => routers.get(id) ?? []),
    identityId: row.identity_id,
    service: ref("services", row.service_id, services.get(row.service_id)),
    serviceId: row.service_id,
    servicePolicies: policyIds.map((id) => ref("service-policies", id, policies.get(id))),
    token: row.token,
    type: row.type,
  }));
}

/** A session that a client is about to use. A controller that was just started waits until a router of the session is back. */
export async function renderUsableSession(deps: ApiDependencies, row: SessionRow): Promise<SessionManagementDetail> {
  const shown = only(await renderSessions(deps, [row]));
  if (shown.edgeRouters.some((router) => Object.keys(router.supportedProtocols).length > 0)) return shown;
  const identity = (await identitiesById(deps, [row.identity_id])).get(row.identity_id);
  if (identity === undefined) return shown;
  const index = await deps.model.policy.current();
  await deps.fabric.someRouterBack(index.routersFor(identity, row.service_id));
  return only(await renderSessions(deps, [row]));
}

function connectedFirst(deps: ApiDependencies, routerIds: readonly string[]): string[] {
  const isConnected = (id: string) => deps.fabric.routerState(id) !== undefined;
  return [...routerIds.filter(isConnected), ...routerIds.filter((id) => !isConnected(id))].slice(0, MAX_ROUTERS);
}

async function routersById(deps: ApiDependencies, ids: readonly string[]) {
  const wanted = [...new Set(ids)];
  const { db } = deps.ctx.store;
  const rows = wanted.length === 0 ? [] : await db.selectFrom("router").selectAll().where("id", "in", wanted).execute();
  return new Map(
    rows.map((row) => {
      const state = stateForClients(deps, row.id);
      return [row.id, { ...propertiesOf(row, state), urls: { ...state.supportedProtocols } }] as const;
    }),
  );
}

async function identitiesById(
  deps: ApiDependencies,
  ids: readonly string[],
): Promise<ReadonlyMap<string, { id: string; attrs: string[] }>> {
  const wanted = [...new Set(ids)];
  if (wanted.length === 0) return new Map();
  const { db } = deps.ctx.store;
  const rows = await db.selectFrom("identity").select(["id", "attrs"]).where("id", "in", wanted).execute();
  return new Map(rows.map((row) => [row.id, row]));
}
