import type { ListQuery, policyOperations } from "@sallyport/api";
import type { ApiHandlers } from "../../http/context.ts";
import { type Policies, type PolicyKind, type PolicyRecord, selectedByPolicies } from "../../model/policy/policies.ts";
import { type PolicySide, selects } from "../../model/policy/selection-sql.ts";
import type { EntityFields } from "../../store/filter/filter-sql.ts";
import { caller } from "../caller.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { POLICY_FIELDS, routerFields, SERVICE_FIELDS } from "../lists/fields.ts";
import { detail, listed } from "../lists/listing.ts";
import { listIdentities } from "../render/identity.ts";
import { renderEdgeRouterPolicies, renderServiceEdgeRouterPolicies, renderServicePolicies } from "../render/policy.ts";
import { renderEdgeRouters } from "../render/router.ts";
import { renderServices } from "../render/service.ts";

/** A page of policies of one kind; with `selecting` only those that select the entity. No policy selects an undefined one. */
export async function listPolicies<T>(
  deps: ApiDependencies,
  policies: Policies,
  list: ListQuery,
  render: (deps: ApiDependencies, rows: readonly PolicyRecord[]) => Promise<T[]>,
  selecting?: { readonly side: PolicySide; readonly entity: Parameters<typeof selects>[2] },
) {
  const { db } = deps.ctx.store;
  const table: PolicyKind["table"] = policies.kind.table;
  const fields: EntityFields = POLICY_FIELDS[table];
  // The three tables share the columns that are used here.
  const all = db.selectFrom(table as "service_policy").select(`${table as "service_policy"}.id`);
  const query = selecting === undefined ? all : all.where(selects(table, selecting.side, selecting.entity, table));
  return listed(query, table, fields, list, async (rows) => {
    const ids = rows.map((row) => row.id);
    return render(deps, await policies.byIds(db, ids));
  });
}

/** The permission that a `policyType` of a query names. */
export function permissionOf(policyType: "dial" | "bind"): "Dial" | "Bind" {
  return policyType === "dial" ? "Dial" : "Bind";
}

export function policyHandlers(deps: ApiDependencies): ApiHandlers<typeof policyOperations> {
  const { servicePolicies, edgeRouterPolicies, serviceEdgeRouterPolicies } = deps.model;
  const { db } = deps.ctx.store;

  /** The entities that a policy selects on one side, as a condition; none for an unknown policy. */
  const selection = async (policies: Policies, id: string, side: PolicySide) =>
    selectedByPolicies(await policies.byIds(db, [id]), side);
  const identities = async (policies: Policies, id: string, list: ListQuery) =>
    listIdentities(deps, list, await selection(policies, id, "identity"));
  const routers = async (policies: Policies, id: string, list: ListQuery) => {
    const selected = await selection(policies, id, "router");
    const query = db.selectFrom("router").selectAll().where("router.kind", "=", "edge").where(selected);
    const fields = routerFields(deps.fabric.onlineRouterIds());
    return listed(query, "router", fields, list, (rows) => renderEdgeRouters(deps, rows));
  };
  const services = async (policies: Policies, id: string, list: ListQuery, session: Parameters<typeof caller>[1]) => {
    const { viewer } = await caller(deps, session);
    const query = db
      .selectFrom("service")
      .selectAll()
      .where(await selection(policies, id, "service"));
    return listed(query, "service", SERVICE_FIELDS, list, (rows) => renderServices(deps, rows, viewer));
  };

  return {
    listEdgeRouterPolicies: ({ list }) => listPolicies(deps, edgeRouterPolicies, list, renderEdgeRouterPolicies),
    createEdgeRouterPolicy: async ({ body }) => ({ id: await edgeRouterPolicies.create(body) }),
    detailEdgeRouterPolicy: async ({ params }) =>
      detail(deps, renderEdgeRouterPolicies, await edgeRouterPolicies.get(db, params.id)),
    updateEdgeRouterPolicy: ({ params, body }) => edgeRouterPolicies.update(params.id, body),
    patchEdgeRouterPolicy: ({ params, body }) => edgeRouterPolicies.update(params.id, body),
    deleteEdgeRouterPolicy: ({ params }) => edgeRouterPolicies.delete(params.id),
    listEdgeRouterPolicyEdgeRouters: ({ params, list }) => routers(edgeRouterPolicies, params.id, list),
    listEdgeRouterPolicyIdentities: ({ params, list }) => identities(edgeRouterPolicies, params.id, list),

    listServiceEdgeRouterPolicies: ({ list }) =>
      listPolicies(deps, serviceEdgeRouterPolicies, list, renderServiceEdgeRouterPolicies),
    createServiceEdgeRouterPolicy: async ({ body }) => ({ id: await serviceEdgeRouterPolicies.create(body) }),
    detailServiceEdgeRouterPolicy: async ({ params }) =>
      detail(deps, renderServiceEdgeRouterPolicies, await serviceEdgeRouterPolicies.get(db, params.id)),
    updateServiceEdgeRouterPolicy: ({ params, body }) => serviceEdgeRouterPolicies.update(params.id, body),
    patchServiceEdgeRouterPolicy: ({ params, body }) => serviceEdgeRouterPolicies.update(params.id, body),
    deleteServiceEdgeRouterPolicy: ({ params }) => serviceEdgeRouterPolicies.delete(params.id),
    listServiceEdgeRouterPolicyEdgeRouters: ({ params, list }) => routers(serviceEdgeRouterPolicies, params.id, list),
    listServiceEdgeRouterPolicyServices: ({ params, list, session }) =>
      services(serviceEdgeRouterPolicies, params.id, list, session),

    listServicePolicies: ({ list }) => listPolicies(deps, servicePolicies, list, renderServicePolicies),
    createServicePolicy: async ({ body }) => ({ id: await servicePolicies.create(body) }),
    detailServicePolicy: async ({ params }) =>
      detail(deps, renderServicePolicies, await servicePolicies.get(db, params.id)),
    updateServicePolicy: ({ params, body }) => servicePolicies.update(params.id, body),
    patchServicePolicy: ({ params, body }) => servicePolicies.update(params.id, body),
    deleteServicePolicy: ({ params }) => servicePolicies.delete(params.id),
    listServicePolicyIdentities: ({ params, list }) => identities(servicePolicies, params.id, list),
    listServicePolicyServices: ({ params, list, session }) => services(servicePolicies, params.id, list, session),
  };
}
