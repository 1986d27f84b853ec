import { secretNames } from "../../render/network/names.ts";
import type { NetworkResource } from "../../resources/network.ts";
import type { ReconcileContext } from "../loop/kind-reconciler.ts";

/**
 * Why a spec may not use this Secret: a Network logs in with it. Otherwise a user who may declare configs could read an administrator's password from
 * the network. Undefined when no Network uses it.
 */
export function networkSecretProblem(
  namespace: string,
  name: string,
  { known }: Pick<ReconcileContext, "known">,
): string | undefined {
  const networks = known.resources<NetworkResource>("Network", namespace);
  const user = networks.find((network) => secretNames(network).includes(name));
  if (user === undefined) return undefined;
  return `the Secret ${name} is for the Network ${user.metadata.name} alone: name another one`;
}
