/** A cluster of the image of k3s in one container, on Docker. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errorText } from "@sallyport/async";
import { GenericContainer, type StartedTestContainer, Wait } from "testcontainers";
import type { ClusterOptions } from "../cluster.ts";
import { Kubectl } from "../kubectl.ts";
import { NoClusterError } from "../tools.ts";
import { AttachedCluster } from "./attached.ts";
import { dockerSocket } from "./docker.ts";
import type { ClusterHandle } from "./handle.ts";
import { programOnPath } from "./program-on-path.ts";

const IMAGE = process.env.E2E_K3S_IMAGE || "rancher/k3s:v1.34.4-k3s1";
const API_PORT = 6443;
const KUBECONFIG = "/etc/rancher/k3s/k3s.yaml";
/** What k3s imports when it starts. */
const IMAGES = "/var/lib/rancher/k3s/agent/images";
const PATIENCE_MS = 300_000;

/** @throws NoClusterError without kubectl, Docker or the image */
export async function openK3s({ images = [] }: ClusterOptions): Promise<ClusterHandle> {
  const kubectl = programOnPath("kubectl");
  if (kubectl === undefined) throw new NoClusterError("E2E_CLUSTER=k3s needs kubectl on the PATH: install it");
  if ((await dockerSocket()) === undefined)
    throw new NoClusterError("E2E_CLUSTER=k3s needs a Docker engine on this machine, and none answers: start it");
  const folder = mkdtempSync(join(tmpdir(), "sallyport-k3s-"));
  let container: StartedTestContainer | undefined;
  const close = async (): Promise<void> => {
    try {
      await container?.stop({ timeout: 0 });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  };
  try {
    container = await start(images);
    const kubeconfig = join(folder, "kubeconfig");
    const inside = `https://127.0.0.1:${API_PORT}`;
    const outside = `https://${container.getHost()}:${container.getMappedPort(API_PORT)}`;
    // Its certificate is good for every address that it is called by.
    const text = await fileOf(container, KUBECONFIG);
    writeFileSync(kubeconfig, text.replace(inside, outside), { mode: 0o600 });
    await new Kubectl({ program: kubectl, kubeconfig, folder }).kubectl([
      ...["wait", "--for=condition=Available", "deployment/coredns", "--namespace", "kube-system"],
      `--timeout=${PATIENCE_MS / 1000}s`,
    ]);
    return new AttachedCluster(
      { way: "k3s", kubeconfig, kubectl, folder, reachable: false, imagePrefix: "", abilities: [] },
      { close },
    );
  } catch (error) {
    await close();
    throw error;
  }
}

async function start(images: readonly string[]): Promise<StartedTestContainer> {
  try {
    return await new GenericContainer(IMAGE)
      .withCommand(["server", "--disable=traefik", "--disable=metrics-server"])
      .withPrivilegedMode()
      .withExposedPorts(API_PORT)
      .withTmpFs({ "/run": "rw", "/var/run": "rw" })
      .withBindMounts(images.map((source, i) => ({ source, target: `${IMAGES}/${i}.tar`, mode: "ro" as const })))
      .withWaitStrategy(Wait.forLogMessage(/Node controller sync successful/).withStartupTimeout(PATIENCE_MS))
      .start();
  } catch (error) {
    const words = errorText(error);
    if (/pull|manifest|no such image|dial tcp|no such host/i.test(words))
      throw new NoClusterError(`E2E_CLUSTER=k3s needs the image ${IMAGE}, which cannot be had here: ${words}`);
    throw error;
  }
}

async function fileOf(container: StartedTestContainer, path: string): Promise<string> {
  const ran = await container.exec(["cat", path]);
  if (ran.exitCode !== 0) throw new Error(`${path} of the container cannot be read: ${ran.output}`);
  return ran.stdout;
}
