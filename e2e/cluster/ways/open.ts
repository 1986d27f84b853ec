/**
 * One list of scenarios, several ways to get a cluster for them.
 *
 * ```ts
 * await using cluster = await openCluster(wayOf(process.env), { nodes: 2, images: ["dist/images/router.tar"] });
 * ```
 */
import type { ClusterOptions } from "../cluster.ts";
import { AttachedCluster } from "./attached.ts";
import { type ClusterDescription, type ClusterHandle, WAYS, type Way } from "./handle.ts";

/** What `E2E_CLUSTER` names; `local` when it names nothing. @throws RangeError for what is no way */
export function wayOf({ E2E_CLUSTER: name }: { readonly E2E_CLUSTER?: string | undefined }): Way {
  if (name === undefined || name === "") return "local";
  const way = WAYS.find((each) => each === name);
  if (way === undefined) throw new RangeError(`expected E2E_CLUSTER to be one of ${WAYS.join(", ")}, got ${name}`);
  return way;
}

/** What each way is loaded from, when it is asked for: not every machine has what they need. */
const OPENERS: Readonly<Record<Way, (options: ClusterOptions) => Promise<ClusterHandle>>> = {
  local: async (options) => await (await import("../cluster.ts")).Cluster.start(options),
  container: async (options) => await (await import("./container.ts")).openContainer(options),
  kind: async (options) => await (await import("./kind.ts")).openKind(options),
  k3s: async (options) => await (await import("./k3s.ts")).openK3s(options),
  existing: async () => await (await import("./existing.ts")).openExisting(process.env),
};

/**
 * Resolves when nodes and name server are ready, and the images are on every node.
 *
 * @throws RangeError for what is no way
 * @throws NoClusterError when this machine does not offer the way; the message says what it lacks
 */
export async function openCluster(way: string, options: ClusterOptions = {}): Promise<ClusterHandle> {
  return await OPENERS[wayOf({ E2E_CLUSTER: way })](options);
}

/** The cluster that another process has opened, by what its handle's `describe` has told. */
export function attachCluster(description: ClusterDescription): ClusterHandle {
  return new AttachedCluster(description);
}
