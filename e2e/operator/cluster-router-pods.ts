import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { pause } from "@sallyport/async";
import type { KubeClient } from "../../operator/src/kube/client/client.ts";
import { KubeError } from "../../operator/src/kube/client/errors.ts";
import { KINDS, type KubeObject, keyOf, type ResourceKind } from "../../operator/src/kube/kinds.ts";
import { type PodSpec, type PodStatus, type RouterPodOptions, runRouterPod } from "./router-pod.ts";

const LOOK_MS = 150;

interface Pod extends KubeObject {
  readonly spec: PodSpec;
  readonly status?: PodStatus;
}

interface Running {
  readonly uid: string;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

/**
 * What a kubelet does with the pods of routers, on a real API server without nodes: the StatefulSet controller makes the pods, and each is the real router
 * program on this machine, started from what is rendered (`runRouterPod`), with its readiness in the status of its pod. Claims are never bound: a folder stands for each.
 */
export class ClusterRouterPods {
  /** Starts of the router itself, by namespace and name of its pod. */
  readonly starts = new Map<string, number>();
  readonly #client: KubeClient;
  readonly #folder: string;
  readonly #pods = new Map<string, Running>();
  readonly #program: string | undefined;
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;

  /**
   * @param client may read what pods mount, and write their status
   * @param o `program`: file of the router's program; its sources when absent
   */
  constructor(client: KubeClient, folder: string, o: { readonly program?: string } = {}) {
    this.#client = client;
    this.#program = o.program;
    this.#folder = folder;
    mkdirSync(folder, { recursive: true });
    chmodSync(folder, 0o711);
    this.#loop = this.#run();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
    for (const { stop } of this.#pods.values()) stop.abort();
    await Promise.all([...this.#pods.values()].map(({ ended }) => ended));
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      // While the API server is away, pods go on as they are.
      await this.#look().catch((error: unknown) => {
        if (!(error instanceof KubeError)) throw error;
      });
      await pause(LOOK_MS, signal);
    }
  }

  async #look(): Promise<void> {
    const labelSelector = "app.kubernetes.io/managed-by=sallyport,app.kubernetes.io/name=edge-router";
    const { items } = await this.#client.list<Pod>(KINDS.Pod, undefined, { labelSelector, timeoutMs: 5_000 });
    const there = new Map(items.map((pod) => [keyOf(pod), pod]));
    for (const [key, { uid, stop }] of this.#pods) if (there.get(key)?.metadata.uid !== uid) stop.abort();
    for (const [key, pod] of there) if (!this.#pods.has(key)) this.#start(key, pod);
  }

  #start(key: string, pod: Pod): void {
    const { namespace = "", name, uid = "" } = pod.metadata;
    const volume = join(this.#folder, `${namespace}-${name}`);
    mkdirSync(volume, { recursive: true, mode: 0o700 });
    const data = async (kind: ResourceKind, named: string) =>
      (await this.#client.get<KubeObject & { data?: Record<string, string> }>({ kind, namespace, name: named }))?.data;
    const options: RouterPodOptions = {
      ...{ name, spec: pod.spec, volume, folder: this.#folder, program: this.#program },
      config: async (named, at) => (await data(KINDS.ConfigMap, named))?.[at],
      secret: async (named, at) => {
        const value = (await data(KINDS.Secret, named))?.[at];
        return value === undefined ? undefined : Buffer.from(value, "base64").toString();
      },
      tell: async (status) => await this.#tell(pod, status),
      onStart: () => void this.starts.set(key, (this.starts.get(key) ?? 0) + 1),
    };
    const stop = new AbortController();
    const ended = runRouterPod(options, stop.signal)
      .catch((error: unknown) => console.error(key, error))
      .then(() => void this.#pods.delete(key));
    this.#pods.set(key, { uid, stop, ended });
  }

  /** Until it is told, or the pod is another one. */
  async #tell({ metadata: { namespace = "", name, uid } }: Pod, status: PodStatus): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        const ref = { kind: KINDS.Pod, namespace, name };
        await this.#client.patch(ref, { metadata: { uid }, status }, { status: true, timeoutMs: 5_000 });
        return;
      } catch (error) {
        if (!(error instanceof KubeError)) throw error;
        if ([404, 409].includes(error.status)) return;
        if (error.status === 422) throw error;
        await pause(LOOK_MS, signal);
      }
    }
  }
}
