/** A cluster of the program `kind`, with its own image of a node, on Docker. */

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errorText } from "@sallyport/async";
import { run } from "../box/processes.ts";
import type { ClusterOptions } from "../cluster.ts";
import { NoClusterError } from "../tools.ts";
import { AttachedCluster } from "./attached.ts";
import { dockerSocket } from "./docker.ts";
import type { ClusterHandle } from "./handle.ts";
import { programOnPath } from "./program-on-path.ts";

/** Of nodes and pods, on a machine that has fetched the image of the node. */
const WAIT = "300s";

/** What kind is to make: the first node carries the control plane and pods, too; pure. */
export function kindConfig(nodes: number): object {
  const workers = Array.from({ length: Math.max(nodes, 1) - 1 }, () => ({ role: "worker" }));
  return {
    kind: "Cluster",
    apiVersion: "kind.x-k8s.io/v1alpha4",
    nodes: [{ role: "control-plane" }, ...workers],
  };
}

/** @throws NoClusterError without kind, kubectl, Docker or the image of the node */
export async function openKind({ nodes = 1, images = [] }: ClusterOptions): Promise<ClusterHandle> {
  const needed = { kind: programOnPath("kind"), kubectl: programOnPath("kubectl") };
  for (const [name, path] of Object.entries(needed)) {
    if (path === undefined)
      throw new NoClusterError(
        `E2E_CLUSTER=kind needs the program ${name} on the PATH: install it (https://kind.sigs.k8s.io)`,
      );
  }
  if ((await dockerSocket()) === undefined)
    throw new NoClusterError("E2E_CLUSTER=kind needs a Docker engine on this machine, and none answers: start it");
  const { kind = "", kubectl = "" } = needed;
  const name = `sallyport-${randomBytes(4).toString("hex")}`;
  const folder = mkdtempSync(join(tmpdir(), "sallyport-kind-"));
  const kubeconfig = join(folder, "kubeconfig");
  const close = async (): Promise<void> => {
    try {
      await run(kind, "delete", "cluster", "--name", name, "--kubeconfig", kubeconfig);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
  const config = join(folder, "kind.json");
  writeFileSync(config, JSON.stringify(kindConfig(nodes)));
  try {
    await run(
      kind,
      ...["create", "cluster", "--name", name, "--config", config, "--kubeconfig", kubeconfig, "--wait", WAIT],
    );
    for (const archive of images) await run(kind, "load", "image-archive", archive, "--name", name);
  } catch (error) {
    await close();
    const words = errorText(error);
    if (/failed to pull|manifest unknown|pull access denied|dial tcp|no such host/.test(words))
      throw new NoClusterError(`E2E_CLUSTER=kind needs the image of its node, which cannot be had here: ${words}`);
    throw error;
  }
  return new AttachedCluster(
    { way: "kind", kubeconfig, kubectl, folder, reachable: false, imagePrefix: "", abilities: [] },
    { close },
  );
}
