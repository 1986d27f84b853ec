import { type AuthPolicyResource, authPolicy, authPolicyKind } from "@sallyport/resources";
import { authPolicies } from "@sallyport/resources/sync";
import { entityReconciler } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";

export const authPolicyReconciler: KindReconciler<AuthPolicyResource> = entityReconciler({
  kind: authPolicyKind,
  entity: authPolicy,
  collection: authPolicies,
});
