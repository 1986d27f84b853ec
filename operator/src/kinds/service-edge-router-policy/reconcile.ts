import { type Collection, writable } from "../../entity/collection.ts";
import { entityReconciler, noLookUp } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { serviceEdgeRouterPolicyKind } from "../../resources/own-kinds.ts";
import {
  type FoundServiceEdgeRouterPolicy,
  type ServiceEdgeRouterPolicyFields,
  serviceEdgeRouterPolicy,
} from "./plan.ts";
import type { ServiceEdgeRouterPolicyResource } from "./schema.ts";

export const serviceEdgeRouterPolicies: Collection<ServiceEdgeRouterPolicyFields, FoundServiceEdgeRouterPolicy> = {
  list: (client, query, call) => client.listServiceEdgeRouterPolicies({ query }, call),
  detail: async (client, id, call) => (await client.detailServiceEdgeRouterPolicy({ params: { id } }, call)).data,
  create: async (client, body, call) =>
    (await client.createServiceEdgeRouterPolicy({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateServiceEdgeRouterPolicy({ params: { id }, body: writable(whole) }, call),
  retag(client, found, tags, call) {
    const fields = {
      semantic: found.semantic as "AnyOf",
      edgeRouterRoles: found.edgeRouterRoles ?? [],
      serviceRoles: found.serviceRoles ?? [],
    };
    const body = { ...fields, name: found.name, tags };
    return client.updateServiceEdgeRouterPolicy({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteServiceEdgeRouterPolicy({ params: { id } }, call),
};

export const serviceEdgeRouterPolicyReconciler: KindReconciler<ServiceEdgeRouterPolicyResource> = entityReconciler({
  kind: serviceEdgeRouterPolicyKind,
  entity: serviceEdgeRouterPolicy,
  collection: serviceEdgeRouterPolicies,
  lookUp: noLookUp,
});
