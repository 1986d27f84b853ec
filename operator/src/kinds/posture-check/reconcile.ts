import { type PostureCheckResource, postureCheck, postureCheckKind } from "@sallyport/resources";
import { postureChecks } from "@sallyport/resources/sync";
import { entityReconciler } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";

export const postureCheckReconciler: KindReconciler<PostureCheckResource> = entityReconciler({
  kind: postureCheckKind,
  entity: postureCheck,
  collection: postureChecks,
});
