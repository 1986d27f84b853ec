/** The cluster of a run: one process opens it, those of the test files use it. */
import { AttachedCluster } from "../cluster/ways/attached.ts";
import type { ClusterDescription, ClusterHandle } from "../cluster/ways/handle.ts";

/** In the environment: what the processes of the test files have to know of it, as JSON. */
const SHARED = "SALLYPORT_SCENARIO_CLUSTER";
/** The same: that files may open clusters of their own. */
const OWN = "SALLYPORT_SCENARIO_OWN_CLUSTERS";

/** True when the run has a cluster; `describe.skipIf(!hasCluster)`. Known after `setup.ts`. */
export const hasCluster = process.env[SHARED] !== undefined;
/** True when a file of `install/` can open one. Known after `setup-own.ts`. */
export const canOpenCluster = process.env[OWN] !== undefined;

/** For the processes that are started from now on. */
export function offer(cluster: ClusterHandle): void {
  process.env[SHARED] = JSON.stringify(cluster.describe());
}
export const isOffered = (): boolean => process.env[SHARED] !== undefined;
export function allowOwn(): void {
  process.env[OWN] = "1";
}

let attached: ClusterHandle | undefined;

/** The cluster, which the process that opened it closes. */
export function runCluster(): ClusterHandle {
  const found = process.env[SHARED];
  if (found === undefined) throw new Error("this run has no cluster: e2e/scenarios/setup.ts opens it");
  attached ??= new AttachedCluster(JSON.parse(found) as ClusterDescription);
  return attached;
}
