import {
  type ServiceEdgeRouterPolicyResource,
  serviceEdgeRouterPolicy,
  serviceEdgeRouterPolicyKind,
} from "@sallyport/resources";
import { serviceEdgeRouterPolicies } from "@sallyport/resources/sync";
import { entityReconciler } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";

export const serviceEdgeRouterPolicyReconciler: KindReconciler<ServiceEdgeRouterPolicyResource> = entityReconciler({
  kind: serviceEdgeRouterPolicyKind,
  entity: serviceEdgeRouterPolicy,
  collection: serviceEdgeRouterPolicies,
});
