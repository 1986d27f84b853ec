import { secretNames } from "../../render/network/names.ts";
import type { NetworkResource } from "../../resources/network.ts";
import type { ReconcileContext } from "../loop/kind-reconciler.ts";

/**
 * Why a Secret is no value for anybody's spec: a Network gets in by it. Whoever may declare configs and identities would else read an administrator's
 * password out of the network. Undefined: none does.
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
