import type { ListQuery, policyOperations } from "@sallyport/api";
import type { ApiHandlers } from "../../http/context.ts";
import { type Policies, type PolicyKind, type PolicyRecord, selectedByPolicies } from "../../model/policy/policies.ts";
import { type PolicySide, selects } from "../../model/policy/selection-sql.ts";
import type { EntityFields } from "../../store/filter/filter-sql.ts";
import { caller } from "../client/viewer.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { POLICY_FIELDS, routerFields, SERVICE_FIELDS } from "../lists/fields.ts";
import { listIdentities } from "../lists/identities.ts";
import { listed, only } from "../lists/listing.ts";
import { renderEdgeRouterPolicies, renderServiceEdgeRouterPolicies, renderServicePolicies } from "../render/policy.ts";
import { renderEdgeRouters } from "../render/router.ts";
import { renderServices } from "../render/service.ts";

type Selecting = {
  readonly side: PolicySide;
  /** Undefined: there is none, and nothing selects it. */
  readonly entity: { readonly id: string; readonly attrs: readonly string[] } | undefined;
};

/** A page of policies of one kind; with `selecting` only those that select the entity. */
export async function listPolicies<T>(
  deps: ApiDependencies,
  policies: Policies,
  list: ListQuery,
  render: (deps: ApiDependencies, rows: readonly PolicyRecord[]) => Promise<T[]>,
  selecting?: Selecting,
) {
  const { db } = deps.ctx.store;
  const table: PolicyKind["table"] = policies.kind.table;
  const fields: EntityFields = POLICY_FIELDS[table];
  // The three tables share the columns that are used here.
  const all = db.selectFrom(table as "service_policy").select(`${table as "service_policy"}.id`);
  const query = selecting === undefined ? all : all.where(selects(table, selecting.side, selecting.entity, table));
  return listed(query, table, fields, list, async (rows) => {
    const records = await policies.byIds(
      db,
      rows.map((row) => row.id),
    );
    return render(deps, records);
  });
}

/** The entities that the policy selects on one side, as a condition; nothing when there is no such policy. */
async function selection(deps: ApiDependencies, policies: Policies, id: string, side: PolicySide) {
  return selectedByPolicies(await policies.byIds(deps.ctx.store.db, [id]), side);
}

export function policyHandlers(deps: ApiDependencies): ApiHandlers<typeof policyOperations> {
  const { servicePolicies, edgeRouterPolicies, serviceEdgeRouterPolicies } = deps.model;
  const { db } = deps.ctx.store;

  const identities = async (policies: Policies, id: string, list: ListQuery) =>
    listIdentities(deps, list, await selection(deps, policies, id, "identity"));
  const routers = async (policies: Policies, id: string, list: ListQuery) =>
    listed(
      db
        .selectFrom("router")
        .selectAll()
        .where("router.kind", "=", "edge")
        .where(await selection(deps, policies, id, "router")),
      "router",
      routerFields(deps.fabric.onlineRouterIds()),
      list,
      (rows) => renderEdgeRouters(deps, rows),
    );
  const services = async (policies: Policies, id: string, list: ListQuery, session: Parameters<typeof caller>[1]) => {
    const { viewer } = await caller(deps, session);
    return listed(
      db
        .selectFrom("service")
        .selectAll()
        .where(await selection(deps, policies, id, "service")),
      "service",
      SERVICE_FIELDS,
      list,
      (rows) => renderServices(deps, rows, viewer),
    );
  };

  return {
    listEdgeRouterPolicies: ({ list }) => listPolicies(deps, edgeRouterPolicies, list, renderEdgeRouterPolicies),
    createEdgeRouterPolicy: async ({ body }) => ({ id: await edgeRouterPolicies.create(body) }),
    detailEdgeRouterPolicy: async ({ params }) => ({
      data: only(await renderEdgeRouterPolicies(deps, [await edgeRouterPolicies.get(db, params.id)])),
    }),
    updateEdgeRouterPolicy: ({ params, body }) => edgeRouterPolicies.update(params.id, body),
    patchEdgeRouterPolicy: ({ params, body }) => edgeRouterPolicies.update(params.id, body),
    deleteEdgeRouterPolicy: ({ params }) => edgeRouterPolicies.delete(params.id),
    listEdgeRouterPolicyEdgeRouters: ({ params, list }) => routers(edgeRouterPolicies, params.id, list),
    listEdgeRouterPolicyIdentities: ({ params, list }) => identities(edgeRouterPolicies, params.id, list),

    listServiceEdgeRouterPolicies: ({ list }) =>
      listPolicies(deps, serviceEdgeRouterPolicies, list, renderServiceEdgeRouterPolicies),
    createServiceEdgeRouterPolicy: async ({ body }) => ({ id: await serviceEdgeRouterPolicies.create(body) }),
    detailServiceEdgeRouterPolicy: async ({ params }) => ({
      data: only(await renderServiceEdgeRouterPolicies(deps, [await serviceEdgeRouterPolicies.get(db, params.id)])),
    }),
    updateServiceEdgeRouterPolicy: ({ params, body }) => serviceEdgeRouterPolicies.update(params.id, body),
    patchServiceEdgeRouterPolicy: ({ params, body }) => serviceEdgeRouterPolicies.update(params.id, body),
    deleteServiceEdgeRouterPolicy: ({ params }) => serviceEdgeRouterPolicies.delete(params.id),
    listServiceEdgeRouterPolicyEdgeRouters: ({ params, list }) => routers(serviceEdgeRouterPolicies, params.id, list),
    listServiceEdgeRouterPolicyServices: ({ params, list, session }) =>
      services(serviceEdgeRouterPolicies, params.id, list, session),

    listServicePolicies: ({ list }) => listPolicies(deps, servicePolicies, list, renderServicePolicies),
    createServicePolicy: async ({ body }) => ({ id: await servicePolicies.create(body) }),
    detailServicePolicy: async ({ params }) => ({
      data: only(await renderServicePolicies(deps, [await servicePolicies.get(db, params.id)])),
    }),
    updateServicePolicy: ({ params, body }) => servicePolicies.update(params.id, body),
    patchServicePolicy: ({ params, body }) => servicePolicies.update(params.id, body),
    deleteServicePolicy: ({ params }) => servicePolicies.delete(params.id),
    listServicePolicyIdentities: ({ params, list }) => identities(servicePolicies, params.id, list),
    listServicePolicyServices: ({ params, list, session }) => services(servicePolicies, params.id, list, session),
  };
}
