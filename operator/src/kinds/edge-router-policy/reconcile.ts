import { type Collection, writable } from "../../entity/collection.ts";
import { entityReconciler, noLookUp } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { edgeRouterPolicyKind } from "../../resources/own-kinds.ts";
import { type EdgeRouterPolicyFields, edgeRouterPolicy, type FoundEdgeRouterPolicy } from "./plan.ts";
import type { EdgeRouterPolicyResource } from "./schema.ts";

export const edgeRouterPolicies: Collection<EdgeRouterPolicyFields, FoundEdgeRouterPolicy> = {
  list: (client, query, call) => client.listEdgeRouterPolicies({ query }, call),
  detail: async (client, id, call) => (await client.detailEdgeRouterPolicy({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createEdgeRouterPolicy({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateEdgeRouterPolicy({ params: { id }, body: writable(whole) }, call),
  retag(client, found, tags, call) {
    const fields = {
      semantic: found.semantic as "AnyOf",
      edgeRouterRoles: found.edgeRouterRoles ?? [],
      identityRoles: found.identityRoles ?? [],
    };
    const body = { ...fields, name: found.name, tags };
    return client.updateEdgeRouterPolicy({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteEdgeRouterPolicy({ params: { id } }, call),
};

export const edgeRouterPolicyReconciler: KindReconciler<EdgeRouterPolicyResource> = entityReconciler({
  kind: edgeRouterPolicyKind,
  entity: edgeRouterPolicy,
  collection: edgeRouterPolicies,
  lookUp: noLookUp,
});
