import { type EntityResource, type NetworkResource, networkRefOf } from "@sallyport/resources";
import type { ReconcileContext } from "../../loop/kind-reconciler.ts";
import { secretNames } from "./render/names.ts";

/** What other kinds may ask of Networks. They import nothing else of this folder. */

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

/** Where routers dial: the addresses that the Network's spec names, else those that the network's controllers announce. */
export function controllersOf(resource: EntityResource, { known }: Pick<ReconcileContext, "known">): Controllers {
  const { namespace, name } = networkRefOf(resource);
  const network = known.resource<NetworkResource>("Network", namespace, name);
  const chosen = network?.spec.external?.ctrlEndpoints ?? [];
  if (chosen.length > 0) return { endpoints: chosen, areChosen: true };
  const told = (network?.status.controllers ?? []).flatMap(({ ctrlAddress }) => ctrlAddress ?? []);
  return { endpoints: told.filter((address) => /^tls:.+:\d+$/.test(address)), areChosen: false };
}

/** Where controllers are dialled first. */
export interface Controllers {
  readonly endpoints: readonly string[];
  /** The Network's spec names them, in place of what the controllers announce: a change of them is a change of the router's file. */
  readonly areChosen: boolean;
}
