import { KINDS } from "../../kube/kinds.ts";
import { networkKind } from "../../resources/kinds.ts";
import type { NetworkResource } from "../../resources/network.ts";
import type { KindReconciler } from "../loop/kind-reconciler.ts";
import { type ExternalOptions, reconcileExternal } from "./external-network.ts";
import { FirstLogins } from "./first-logins.ts";
import { type ManagedOptions, reconcileManaged } from "./managed-network.ts";
import { abandonNetwork, removeNetwork } from "./network-removal.ts";
import { refOf } from "./use-network.ts";

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
