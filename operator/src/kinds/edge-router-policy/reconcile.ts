import { type EdgeRouterPolicyResource, edgeRouterPolicy, edgeRouterPolicyKind } from "@sallyport/resources";
import { edgeRouterPolicies } from "@sallyport/resources/sync";
import { entityReconciler } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";

export const edgeRouterPolicyReconciler: KindReconciler<EdgeRouterPolicyResource> = entityReconciler({
  kind: edgeRouterPolicyKind,
  entity: edgeRouterPolicy,
  collection: edgeRouterPolicies,
});
