/**
 * A whole cluster in one container, of our own image of a node: on Docker where there is one, else on a podman that belongs to
 * the cluster. Seen from the test it is as `Cluster` is: routes to nodes, pods and Services, components to stop.
 */
import { join } from "node:path";
import { type ClusterOptions, keeperOptions } from "../cluster.ts";
import { KeeperProcess } from "../keeper/keeper-process.ts";
import { findTools, installTool } from "../tools.ts";
import { AttachedCluster } from "./attached.ts";
import type { Engine } from "./container/engine-plan.ts";
import { nodeImage } from "./container/node-image.ts";
import { dockerSocket } from "./docker.ts";
import type { ClusterHandle } from "./handle.ts";

/** @throws NoClusterError when this machine cannot have one */
export async function openContainer(options: ClusterOptions): Promise<ClusterHandle> {
  const tools = findTools();
  const began = performance.now();
  const node = nodeImage(tools);
  const engine: Engine =
    (await dockerSocket()) === undefined
      ? { kind: "podman", root: installTool("podman"), node }
      : { kind: "docker", node };
  const keeper = new KeeperProcess({ ...keeperOptions(options), tools, engine }, options.onStage);
  const { kubeconfig, folder } = await keeper.ready;
  keeper.stages.set("ready", Math.round(performance.now() - began));
  const abilities = ["components", "compact", "nodes", "machine"] as const;
  const kubectl = join(tools.kubernetes, "kubectl");
  return new AttachedCluster(
    { way: "container", kubeconfig, kubectl, folder, reachable: true, imagePrefix: "", abilities },
    { stages: keeper.stages, close: async () => await keeper.end() },
  );
}
