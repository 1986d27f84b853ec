import { KINDS } from "../../kube/kinds.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { networkKind } from "../../resources/own-kinds.ts";
import { type ExternalOptions, reconcileExternal } from "./reconcile/external.ts";
import { FirstLogins } from "./reconcile/first-logins.ts";
import { type ManagedOptions, reconcileManaged } from "./reconcile/managed.ts";
import { abandonNetwork, removeNetwork } from "./reconcile/removal.ts";
import { refOf } from "./reconcile/use.ts";
import type { NetworkResource } from "./schema.ts";

export type NetworkReconcilerOptions = ExternalOptions & ManagedOptions;

/** Reconciles Networks (docs/operator/networks.md): connects to those that exist, runs those that the operator is to run. */
export function networkReconciler(o: NetworkReconcilerOptions): KindReconciler<NetworkResource> {
  const firstLogins = new FirstLogins(o.times?.refusedLoginMs);
  return {
    kind: networkKind,
    owns: [KINDS.StatefulSet, KINDS.Service, KINDS.ConfigMap, KINDS.Secret, KINDS.PersistentVolumeClaim, KINDS.Pod],
    async reconcile(resource, context) {
      const { external, managed } = resource.spec;
      if (external !== undefined) return await reconcileExternal(resource, external, context, o);
      if (managed !== undefined) return await reconcileManaged(resource, managed, context, { ...o, firstLogins });
      throw new TypeError("a Network that is neither external nor managed passed the schema");
    },
    remove: async (resource, context) => {
      firstLogins.forget(refOf(resource));
      return await removeNetwork(resource, context, o);
    },
    abandon: abandonNetwork,
  };
}
