import { join } from "node:path";
import { findTools } from "../cluster/tools.ts";
import type { ClusterHandle } from "../cluster/ways/handle.ts";
import { openCluster, wayOf } from "../cluster/ways/open.ts";
import { programArchives } from "../images/program-archives.ts";
import { checkMemory, installOperator } from "./installation.ts";
import { MemoryWatch } from "./memory-watch.ts";
import { ROOT } from "./root.ts";
import { isOffered, offer } from "./run-cluster.ts";
import { sdkAppArchive } from "./sidecars/sdk-app-image.ts";
import { skip } from "./skipped.ts";

/**
 * Opens the cluster of a run, with all images and the operator in it; the way is in `E2E_CLUSTER` (docs/cluster.md). Where
 * there can be none all scenarios are skipped. The first project that shares it opens it, and closes it after the last.
 */
export async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (isOffered()) return undefined;
  const way = wayOf(process.env);
  let cluster: ClusterHandle | undefined;
  try {
    // Looked for before the images are made.
    if (way === "local") findTools();
    const folder = join(ROOT, "dist", "images");
    const images = way === "existing" ? [] : [...(await programArchives(folder)), await sdkAppArchive(folder)];
    cluster = await openCluster(way, { nodes: 2, images });
    await installOperator(cluster);
  } catch (error) {
    await cluster?.close();
    skip(error);
    return undefined;
  }
  offer(cluster);
  return ending(cluster, new MemoryWatch(cluster));
}

/** None of our containers has needed more memory than it may have; the cluster goes in any case. */
function ending(cluster: ClusterHandle, memory: MemoryWatch): () => Promise<void> {
  return async () => {
    const checked = await Promise.allSettled([checkMemory(cluster)]);
    // The last question ends with the API server.
    const watched = Promise.allSettled([memory.end()]);
    await cluster.close();
    checked.push(...(await watched));
    const wrong = checked.flatMap((each) => (each.status === "rejected" ? [each.reason as Error] : []));
    if (wrong.length > 0) throw new AggregateError(wrong, wrong.map(({ message }) => message).join("\n"));
  };
}
