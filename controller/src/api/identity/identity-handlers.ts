import {
  apiTime,
  type identityOperations,
  type ListQuery,
  notFound,
  type tracingOperations,
  ZERO_TIME,
} from "@sallyport/api";
import type { ApiHandlers, ApiSessionContext } from "../../http/context.ts";
import { namesOf } from "../../model/entity.ts";
import { countRouters, permissionsOn, routersOfIdentity } from "../../model/policy/access.ts";
import { fieldNames } from "../../store/filter/filter-sql.ts";
import type { ApiDependencies } from "../dependencies.ts";
import {
  API_SESSION_FIELDS,
  AUTHENTICATOR_FIELDS,
  ENROLLMENT_FIELDS,
  routerFields,
  SERVICE_FIELDS,
  SESSION_FIELDS,
} from "../lists/fields.ts";
import { detail, fixedTypes, listed, listRoleAttributes, roleCondition } from "../lists/listing.ts";
import { listAttributeUsage } from "../lists/role-attribute-usage.ts";
import { listPolicies, permissionOf } from "../network/policy-handlers.ts";
import { baseOf, identityRef, ref } from "../render/base.ts";
import { renderAuthenticators, renderEnrollments } from "../render/credentials.ts";
import { listIdentities, showIdentity } from "../render/identity.ts";
import { renderEdgeRouterPolicies, renderServicePolicies } from "../render/policy.ts";
import { renderEdgeRouters } from "../render/router.ts";
import { listGrantedServices } from "../render/service.ts";
import { renderApiSessions, renderSessions } from "../render/session.ts";
import { whyHandlers } from "./why-handlers.ts";

/** Their ids and names are the same. */
const IDENTITY_TYPES = ["Default", "Device", "Router", "Service", "User"].map((name) => ({ id: name, name }));

export function identityHandlers(deps: ApiDependencies): ApiHandlers<typeof identityOperations> {
  const { model, fabric } = deps;
  const types = fixedTypes(deps, "identityType", IDENTITY_TYPES, (row) => ({
    ...baseOf("identity-types", row),
    name: row.name,
  }));
  const { db } = deps.ctx.store;

  const authenticators = () => db.selectFrom("authenticator").selectAll();
  const listAuthenticators = (query: ReturnType<typeof authenticators>, list: ListQuery) =>
    listed(query, "authenticator", AUTHENTICATOR_FIELDS, list, (rows) => renderAuthenticators(deps, rows));
  const enrollments = () => db.selectFrom("enrollment").selectAll();
  const listEnrollments = (query: ReturnType<typeof enrollments>, list: ListQuery) =>
    listed(query, "enrollment", ENROLLMENT_FIELDS, list, (rows) => renderEnrollments(deps, rows));

  // The sub-list of an unknown identity is empty, as clients of OpenZiti expect.
  const identity = (id: string) => model.identities.find(db, id);

  return {
    listIdentityTypes: ({ list }) => types.list(list),
    detailIdentityType: ({ params }) => types.detail(params.id),

    listIdentities: ({ list, query }) => listIdentities(deps, list, roleCondition("identity", query)),
    createIdentity: async ({ body }) => ({ id: await model.identities.create(body) }),
    detailIdentity: async ({ params }) => ({ data: await showIdentity(deps, params.id) }),
    updateIdentity: ({ params, body }) => model.identities.replace(params.id, body),
    patchIdentity: ({ params, body }) => model.identities.update(params.id, body),
    deleteIdentity: ({ params }) => model.identities.delete(params.id),
    getIdentityAuthenticators: ({ params, list }) =>
      listAuthenticators(authenticators().where("authenticator.identity_id", "=", params.id), list),
    getIdentityEnrollments: ({ params, list }) =>
      listEnrollments(enrollments().where("enrollment.identity_id", "=", params.id), list),
    listIdentitysEdgeRouterPolicies: async ({ params, list }) =>
      listPolicies(deps, model.edgeRouterPolicies, list, renderEdgeRouterPolicies, {
        side: "identity",
        entity: await identity(params.id),
      }),
    listIdentityEdgeRouters: async ({ params, list }) => {
      const usable = await routersOfIdentity(db, await identity(params.id), "router");
      const query = db.selectFrom("router").selectAll().where("router.kind", "=", "edge").where(usable);
      return listed(query, "router", routerFields(fabric.onlineRouterIds()), list, (rows) =>
        renderEdgeRouters(deps, rows),
      );
    },
    listIdentityServicePolicies: async ({ params, list }) =>
      listPolicies(deps, model.servicePolicies, list, renderServicePolicies, {
        side: "identity",
        entity: await identity(params.id),
      }),
    listIdentityServices: async ({ params, list, query }) => {
      const viewed = await identity(params.id);
      if (viewed === undefined) return { data: [], totalCount: 0, filterableFields: fieldNames(SERVICE_FIELDS) };
      const permission = query.policyType && permissionOf(query.policyType);
      const viewer = { identityId: viewed.id, grants: await model.policy.grantsOf(viewed), configTypes: [] };
      return listGrantedServices(deps, viewed, viewer, list, { permission });
    },
    ...whyHandlers(deps),
    getIdentityPolicyAdvice: async ({ params }) => ({ data: await advise(deps, params.id, params.serviceId) }),
    disableIdentity: ({ params, body }) => model.identities.disable(params.id, body.durationMinutes),
    enableIdentity: ({ params }) => model.identities.enable(params.id),

    listIdentitysServiceConfigs: async ({ params }) => {
      const pairs = await model.serviceConfigOverrides.of(params.id);
      const serviceIds = pairs.map((pair) => pair.serviceId);
      const configIds = pairs.map((pair) => pair.configId);
      const services = await namesOf(db, "service", serviceIds);
      const configs = await namesOf(db, "config", configIds);
      const data = pairs.map(({ serviceId, configId }) => ({
        config: ref("configs", configId, configs.get(configId)),
        configId,
        service: ref("services", serviceId, services.get(serviceId)),
        serviceId,
      }));
      return { data, totalCount: data.length };
    },
    associateIdentitysServiceConfigs: ({ params, body }) => model.serviceConfigOverrides.assign(params.id, body),
    disassociateIdentitysServiceConfigs: ({ params, body }) =>
      model.serviceConfigOverrides.remove(params.id, Array.isArray(body) ? body : []),
    listIdentityRoleAttributes: ({ list }) => listRoleAttributes(db, "identity", list),
    listIdentityRoleAttributeUsage: ({ list, query }) =>
      listAttributeUsage(db, "identity", list, query.withIds === true),

    listAuthenticators: ({ list }) => listAuthenticators(authenticators(), list),
    createAuthenticator: async ({ body }) => ({ id: await model.authenticators.create(body) }),
    detailAuthenticator: async ({ params }) =>
      detail(deps, renderAuthenticators, await model.authenticators.get(db, params.id)),
    updateAuthenticator: ({ params, body, session }) =>
      model.authenticators.update(params.id, body, { keptSession: session.apiSessionId }),
    patchAuthenticator: ({ params, body, session }) =>
      model.authenticators.update(params.id, body, { keptSession: session.apiSessionId }),
    deleteAuthenticator: ({ params }) => model.authenticators.delete(params.id),
    reEnrollAuthenticator: async ({ params, body }) => ({
      id: await model.authenticators.reEnroll(params.id, body.expiresAt),
    }),

    listEnrollments: ({ list }) => listEnrollments(enrollments(), list),
    createEnrollment: async ({ body }) => ({ id: await model.enrollments.create(body) }),
    detailEnrollment: async ({ params }) => detail(deps, renderEnrollments, await model.enrollments.get(db, params.id)),
    deleteEnrollment: ({ params }) => model.enrollments.delete(params.id),
    refreshEnrollment: async ({ params, body }) => {
      await model.enrollments.refresh(params.id, body.expiresAt);
      return { id: params.id };
    },

    listAPISessions: ({ list }) =>
      listed(completeSessions(deps), "api_session", API_SESSION_FIELDS, list, (rows) => renderApiSessions(deps, rows)),
    detailAPISessions: async ({ params }) => {
      const row = await completeSessions(deps).where("id", "=", params.id).executeTakeFirst();
      if (row === undefined) throw notFound("apiSession", params.id);
      return detail(deps, renderApiSessions, row);
    },
    deleteAPISessions: ({ params }) => model.apiSessions.delete(params.id),

    listSessions: ({ list, session }) =>
      listed(visibleSessions(deps, session), "session", SESSION_FIELDS, list, (rows) => renderSessions(deps, rows)),
    detailSession: async ({ params, session }) => {
      const row = await visibleSessions(deps, session).where("session.id", "=", params.id).executeTakeFirst();
      if (row === undefined) throw notFound("session", params.id);
      return detail(deps, renderSessions, row);
    },
    deleteSession: ({ params, session }) =>
      model.sessions.delete(params.id, session.isAdmin ? undefined : session.apiSessionId),
  };
}

/** API sessions without those whose OIDC login is not complete. */
function completeSessions({ ctx }: ApiDependencies) {
  const all = ctx.store.db.selectFrom("api_session").selectAll();
  return all.where((eb) =>
    eb.or([eb("api_session.kind", "=", "legacy"), eb("api_session.access_until", "is not", null)]),
  );
}

/** All sessions for an administrator, otherwise those of the caller's API session. */
function visibleSessions(deps: ApiDependencies, session: ApiSessionContext) {
  const all = deps.ctx.store.db.selectFrom("session").selectAll();
  return session.isAdmin ? all : all.where("session.api_session_id", "=", session.apiSessionId);
}

/** Whether an identity reaches a service, and over which routers. @throws ApiError 404 when either is unknown */
async function advise(deps: ApiDependencies, identityId: string, serviceId: string) {
  const { model, fabric } = deps;
  const { db } = deps.ctx.store;
  const identity = await model.identities.get(db, identityId);
  const service = await model.services.get(db, serviceId);
  const permissions = permissionsOn(await model.policy.grantsOf(identity), service);
  const common = await model.sessions.commonRouters(db, identity, service);
  const counts = await countRouters(db, identity, service);
  return {
    commonRouters: common.map((router) => ({
      ...ref("edge-routers", router.id, router.name),
      isOnline: fabric.routerState(router.id)?.isOnline ?? false,
    })),
    identity: identityRef(identity.id, identity.name, identity.auth_policy_id),
    identityId: identity.id,
    identityRouterCount: counts.ofIdentity,
    isBindAllowed: permissions.includes("Bind"),
    isDialAllowed: permissions.includes("Dial"),
    service: ref("services", service.id, service.name),
    serviceId: service.id,
    serviceRouterCount: counts.ofService,
  };
}

export function tracingHandlers({
  ctx,
  model,
  network,
  memory,
}: ApiDependencies): ApiHandlers<typeof tracingOperations> {
  return {
    updateIdentityTracing: async ({ params, body }) => {
      const identity = await model.identities.get(ctx.store.db, params.id);
      if (!body.enabled) {
        await memory.disableTrace(identity.id);
        return { data: { until: ZERO_TIME } };
      }
      const { traceId, until } = await memory.enableTrace(identity.id, body);
      return { data: { enabled: true, traceId, until: apiTime(until) } };
    },
    // A session that is unknown, or has no circuit, has an empty path.
    detailSessionRoutePath: async ({ params }) => {
      const circuit = await network.circuitOfSession(params.id);
      return { data: { routePath: [...(circuit?.route.routers ?? [])] } };
    },
  };
}
