/**
 * The cluster that `KUBECONFIG` names. Images must be within its reach, under their names behind `E2E_IMAGE_PREFIX`. Nothing
 * in it is removed but what the tests make.
 */
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { Kubectl, KubectlError } from "../kubectl.ts";
import { NoClusterError } from "../tools.ts";
import { AttachedCluster } from "./attached.ts";
import type { ClusterHandle } from "./handle.ts";
import { programOnPath } from "./program-on-path.ts";

/** How long a connection to a Service may take to be made. */
const REACH_MS = 3_000;

export interface Environment {
  readonly KUBECONFIG?: string | undefined;
  readonly E2E_IMAGE_PREFIX?: string | undefined;
  readonly PATH?: string | undefined;
}

/** @throws NoClusterError when the environment names none, or it does not answer */
export async function openExisting(environment: Environment): Promise<ClusterHandle> {
  const kubeconfig = environment.KUBECONFIG?.split(delimiter).find((file) => existsSync(file));
  if (kubeconfig === undefined)
    throw new NoClusterError("E2E_CLUSTER=existing needs KUBECONFIG to name the file of a cluster's administrator");
  const kubectl = programOnPath("kubectl", environment.PATH);
  if (kubectl === undefined)
    throw new NoClusterError("E2E_CLUSTER=existing needs kubectl on the PATH, which it is not");
  const folder = mkdtempSync(join(tmpdir(), "sallyport-existing-"));
  const close = async (): Promise<void> => rmSync(folder, { recursive: true, force: true });
  const prefix = environment.E2E_IMAGE_PREFIX ?? "";
  const imagePrefix = prefix === "" || prefix.endsWith("/") ? prefix : `${prefix}/`;
  const access = new Kubectl({ program: kubectl, kubeconfig, folder });
  try {
    const service = await access.get<{ spec: { clusterIP: string } }>("service", "kubernetes");
    const reachable = await accepts(service.spec.clusterIP, 443);
    return new AttachedCluster(
      { way: "existing", kubeconfig, kubectl, folder, reachable, imagePrefix, abilities: [] },
      { close },
    );
  } catch (error) {
    await close();
    if (!(error instanceof KubectlError)) throw error;
    throw new NoClusterError(`the cluster that ${kubeconfig} names does not answer: ${error.ran.stderr.trim()}`);
  }
}

/** Whether connections to an address are taken; on a machine without a route to it the attempt fails, at once or at its limit. */
async function accepts(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port, timeout: REACH_MS });
  try {
    await Promise.race([
      once(socket, "connect"),
      once(socket, "timeout").then(() => Promise.reject(new Error("no answer"))),
    ]);
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
