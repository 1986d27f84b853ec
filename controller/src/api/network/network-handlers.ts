import { type ListQuery, type networkOperations, notFound, type routerOperations } from "@sallyport/api";
import { sql } from "kysely";
import type { ApiHandlers } from "../../http/context.ts";
import type { RouterChange } from "../../model/network/routers.ts";
import { grantedServices, routersOfService } from "../../model/policy/access.ts";
import { selectedByPolicies } from "../../model/policy/policies.ts";
import { summarize } from "../../model/summary.ts";
import { caller, splitAtCommas } from "../caller.ts";
import type { ApiDependencies } from "../dependencies.ts";
import {
  CONFIG_FIELDS,
  CONFIG_TYPE_FIELDS,
  routerFields,
  SERVICE_FIELDS,
  TERMINATOR_FIELDS,
  transitRouterFields,
} from "../lists/fields.ts";
import { detail, listed, listRoleAttributes, only, roleCondition } from "../lists/listing.ts";
import { listAttributeUsage } from "../lists/role-attribute-usage.ts";
import { listIdentities } from "../render/identity.ts";
import { renderEdgeRouterPolicies, renderServiceEdgeRouterPolicies, renderServicePolicies } from "../render/policy.ts";
import { postureLens } from "../render/posture.ts";
import { renderEdgeRouters, renderRouters } from "../render/router.ts";
import { renderConfigs, renderConfigType, renderServices, renderTerminators, type Viewer } from "../render/service.ts";
import { listPolicies, permissionOf } from "./policy-handlers.ts";

export function networkHandlers(deps: ApiDependencies): ApiHandlers<typeof networkOperations> {
  const { model, fabric } = deps;
  const { db } = deps.ctx.store;

  const routers = () => db.selectFrom("router").selectAll().where("router.kind", "=", "edge");
  const listRouters = (query: ReturnType<typeof routers>, list: ListQuery) =>
    listed(query, "router", routerFields(fabric.onlineRouterIds()), list, (rows) => renderEdgeRouters(deps, rows));
  const services = () => db.selectFrom("service").selectAll();
  const listServices = (query: ReturnType<typeof services>, list: ListQuery, viewer: Viewer) =>
    listed(query, "service", SERVICE_FIELDS, list, (rows) => renderServices(deps, rows, viewer));
  const configs = () => db.selectFrom("config").selectAll();
  const listConfigs = (query: ReturnType<typeof configs>, list: ListQuery) =>
    listed(query, "config", CONFIG_FIELDS, list, (rows) => renderConfigs(deps, rows));
  const terminators = () => db.selectFrom("terminator").selectAll();
  const listTerminators = (query: ReturnType<typeof terminators>, list: ListQuery) =>
    listed(query, "terminator", TERMINATOR_FIELDS, list, (rows) => renderTerminators(deps, rows));

  // The sub-list of an unknown entity is empty, as clients of OpenZiti expect.
  const router = (id: string) => model.routers.find(db, id);
  const service = (id: string) => model.services.find(db, id);

  return {
    listSummary: async () => ({ data: await summarize(db) }),

    listEdgeRouters: ({ list, query }) => {
      const condition = roleCondition("router", query);
      return listRouters(condition === undefined ? routers() : routers().where(condition), list);
    },
    createEdgeRouter: async ({ body }) => ({ id: await model.routers.create(body) }),
    detailEdgeRouter: async ({ params }) =>
      detail(deps, renderEdgeRouters, await model.routers.get(db, params.id, "edge")),
    updateEdgeRouter: ({ params, body }) => model.routers.update(params.id, body),
    patchEdgeRouter: ({ params, body }) => model.routers.update(params.id, body),
    deleteEdgeRouter: ({ params }) => model.routers.delete(params.id, "edge"),
    listEdgeRouterEdgeRouterPolicies: async ({ params, list }) =>
      listPolicies(deps, model.edgeRouterPolicies, list, renderEdgeRouterPolicies, {
        side: "router",
        entity: await router(params.id),
      }),
    listEdgeRouterIdentities: async ({ params, list }) => {
      const policies = await model.edgeRouterPolicies.selecting(db, "router", await router(params.id));
      return listIdentities(deps, list, selectedByPolicies(policies, "identity"));
    },
    listEdgeRouterServiceEdgeRouterPolicies: async ({ params, list }) =>
      listPolicies(deps, model.serviceEdgeRouterPolicies, list, renderServiceEdgeRouterPolicies, {
        side: "router",
        entity: await router(params.id),
      }),
    listEdgeRouterServices: async ({ params, list, session }) => {
      const policies = await model.serviceEdgeRouterPolicies.selecting(db, "router", await router(params.id));
      const { viewer } = await caller(deps, session);
      return listServices(services().where(selectedByPolicies(policies, "service")), list, viewer);
    },
    reEnrollEdgeRouter: ({ params }) => model.routers.reEnroll(params.id),
    listEdgeRouterRoleAttributes: ({ list }) => listRoleAttributes(db, "router", list),
    listEdgeRouterRoleAttributeUsage: ({ list, query }) =>
      listAttributeUsage(db, "router", list, query.withIds === true),

    listServices: async ({ list, query, session }) => {
      const condition = roleCondition("service", query);
      const all = condition === undefined ? services() : services().where(condition);
      const { viewer } = await caller(deps, session, query.configTypes);
      if (query.asIdentity === undefined || query.asIdentity === "") return listServices(all, list, viewer);
      const identity = await model.identities.findByIdOrName(db, query.asIdentity);
      if (identity === undefined) throw notFound("identity", query.asIdentity);
      const grants = await model.policy.grantsOf(identity);
      const seen = identity.is_admin ? all : all.where(grantedServices(grants, "service"));
      return listServices(seen, list, {
        identityId: identity.id,
        grants,
        configTypes: splitAtCommas(query.configTypes),
        postureQueries: await postureLens(deps, identity, ""),
      });
    },
    createService: async ({ body }) => ({ id: await model.services.create(body) }),
    detailService: async ({ params, session }) => {
      const { viewer } = await caller(deps, session);
      return { data: only(await renderServices(deps, [await model.services.get(db, params.id)], viewer)) };
    },
    updateService: ({ params, body }) => model.services.update(params.id, body),
    patchService: ({ params, body }) => model.services.update(params.id, body),
    deleteService: ({ params }) => model.services.delete(params.id),
    listServiceConfig: ({ params, list }) => {
      const ofService = sql<boolean>`config.id IN (SELECT config_id FROM service_config WHERE service_id = ${params.id})`;
      return listConfigs(configs().where(ofService), list);
    },
    listServiceEdgeRouters: async ({ params, list }) =>
      listRouters(routers().where(await routersOfService(db, await service(params.id), "router")), list),
    listServiceIdentities: async ({ params, list, query }) => {
      const policies = await model.servicePolicies.selecting(db, "service", await service(params.id));
      const type = query.policyType && permissionOf(query.policyType);
      const granting = policies.filter((policy) => type === undefined || policy.type === type);
      return listIdentities(deps, list, selectedByPolicies(granting, "identity"));
    },
    listServiceServiceEdgeRouterPolicies: async ({ params, list }) =>
      listPolicies(deps, model.serviceEdgeRouterPolicies, list, renderServiceEdgeRouterPolicies, {
        side: "service",
        entity: await service(params.id),
      }),
    listServiceServicePolicies: async ({ params, list }) =>
      listPolicies(deps, model.servicePolicies, list, renderServicePolicies, {
        side: "service",
        entity: await service(params.id),
      }),
    listServiceTerminators: ({ params, list }) =>
      listTerminators(terminators().where("terminator.service_id", "=", params.id), list),
    listServiceRoleAttributes: ({ list }) => listRoleAttributes(db, "service", list),
    listServiceRoleAttributeUsage: ({ list, query }) => listAttributeUsage(db, "service", list, query.withIds === true),

    listConfigs: ({ list }) => listConfigs(configs(), list),
    createConfig: async ({ body }) => ({ id: await model.configs.create(body) }),
    detailConfig: async ({ params }) => detail(deps, renderConfigs, await model.configs.get(db, params.id)),
    updateConfig: ({ params, body }) => model.configs.update(params.id, body),
    patchConfig: ({ params, body }) => model.configs.update(params.id, body),
    deleteConfig: ({ params }) => model.configs.delete(params.id),
    listConfigServices: async ({ params, list, session }) => {
      const { viewer } = await caller(deps, session);
      const using = sql<boolean>`service.id IN (SELECT service_id FROM service_config WHERE config_id = ${params.id})`;
      return listServices(services().where(using), list, viewer);
    },

    listConfigTypes: ({ list }) =>
      listed(db.selectFrom("config_type").selectAll(), "config_type", CONFIG_TYPE_FIELDS, list, (rows) =>
        rows.map(renderConfigType),
      ),
    createConfigType: async ({ body }) => ({ id: await model.configs.createType(body) }),
    detailConfigType: async ({ params }) => ({ data: renderConfigType(await model.configs.getType(db, params.id)) }),
    updateConfigType: ({ params, body }) => model.configs.replaceType(params.id, body),
    patchConfigType: ({ params, body }) => model.configs.updateType(params.id, body),
    deleteConfigType: ({ params }) => model.configs.deleteType(params.id),
    listConfigsForConfigType: ({ params, list }) =>
      listConfigs(configs().where("config.config_type_id", "=", params.id), list),

    listTerminators: ({ list }) => listTerminators(terminators(), list),
    createTerminator: async ({ body }) => ({ id: await model.terminators.create(body) }),
    detailTerminator: async ({ params }) => detail(deps, renderTerminators, await model.terminators.get(db, params.id)),
    updateTerminator: ({ params, body }) => model.terminators.update(params.id, body),
    patchTerminator: ({ params, body }) => model.terminators.update(params.id, body),
    deleteTerminator: ({ params }) => model.terminators.delete(params.id),
  };
}

/** `/routers` and `/transit-routers` name the same routers. */
export function routerHandlers(deps: ApiDependencies): ApiHandlers<typeof routerOperations> {
  const { model, fabric } = deps;
  const { db } = deps.ctx.store;

  const listAll = ({ list }: { list: ListQuery }) =>
    listed(db.selectFrom("router").selectAll(), "router", transitRouterFields(fabric.onlineRouterIds()), list, (rows) =>
      renderRouters(deps, rows),
    );
  const create = async ({
    body,
  }: {
    body: Omit<Parameters<typeof model.routers.create>[0], keyof typeof NO_EDGE>;
  }) => ({
    id: await model.routers.create({ ...body, ...NO_EDGE }, "transit"),
  });
  const show = async ({ params }: { params: { readonly id: string } }) =>
    detail(deps, renderRouters, await model.routers.get(db, params.id));
  const update = ({ params, body }: { params: { readonly id: string }; body: RouterChange }) =>
    model.routers.update(params.id, body, "transit");
  const remove = ({ params }: { params: { readonly id: string } }) => model.routers.delete(params.id);

  return {
    listRouters: listAll,
    createRouter: create,
    detailRouter: show,
    updateRouter: update,
    patchRouter: update,
    deleteRouter: remove,
    listTransitRouters: listAll,
    createTransitRouter: create,
    detailTransitRouter: show,
    updateTransitRouter: update,
    patchTransitRouter: update,
    deleteTransitRouter: remove,
  };
}

/** What only edge routers have. */
const NO_EDGE = { appData: {}, isTunnelerEnabled: false, roleAttributes: [] };
