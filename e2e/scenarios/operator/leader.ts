/** Which of the operator's pods leads, and how it is killed. */
import { readdirSync, readFileSync } from "node:fs";
import type { ClusterHandle } from "../../cluster/ways/handle.ts";
import { eventually } from "../../network/eventually.ts";
import { OPERATOR, SYSTEM } from "../installation.ts";

/** Ways to kill a pod. `process`: SIGKILL, as by the kernel; `pod`: with force, so that another one is made at once. */
export type Kill = "process" | "pod";

export class Leader {
  readonly #cluster: ClusterHandle;

  constructor(cluster: ClusterHandle) {
    this.#cluster = cluster;
  }

  /** Identity of the process that holds the Lease; it begins with the name of its pod. */
  async holder(): Promise<string> {
    const lease = ["get", "lease", OPERATOR, `--namespace=${SYSTEM}`, "--output=jsonpath={.spec.holderIdentity}"];
    return await eventually("one leads", async () => (await this.#cluster.kubectl(lease)) || undefined, 60_000);
  }

  /** Resolves with what was done: where the processes of pods are out of reach, the pod is deleted in any case. */
  async kill(how: Kill): Promise<{ readonly holder: string; readonly how: Kill }> {
    const holder = await this.holder();
    const pod = holder.slice(0, holder.lastIndexOf("_"));
    const processes = how === "process" ? processesOf(pod) : [];
    if (processes.length === 0) {
      const now = ["--force", "--grace-period=0", "--wait=false"];
      await this.#cluster.kubectl(["delete", "pod", pod, `--namespace=${SYSTEM}`, ...now]);
      return { holder, how: "pod" };
    }
    for (const id of processes) process.kill(id, "SIGKILL");
    return { holder, how };
  }

  /** Until another process holds the Lease. */
  async another(than: string): Promise<string> {
    return await eventually(
      `another than ${than} leads`,
      async () => {
        const holder = await this.holder();
        return holder !== than && holder;
      },
      60_000,
    );
  }
}

/** Processes of this machine that run as a pod, by the name that the pod's specification gives them. */
function processesOf(pod: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((id) => {
      try {
        return readFileSync(`/proc/${id}/environ`, "utf8").split("\0").includes(`POD_NAME=${pod}`);
      } catch {
        // It has ended, or is another user's.
        return false;
      }
    });
}
