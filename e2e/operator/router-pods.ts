import { chmodSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pause } from "@sallyport/async";
import type { FoundPod, FoundStatefulSet } from "../../operator/src/children/workload.ts";
import { KINDS, type KubeObject, type ResourceKind } from "../../operator/src/kube/kinds.ts";
import type { FakeApiServer } from "../../operator/src/kube/testing/fake-api-server.ts";
import { type PodSpec, type RouterPodOptions, runRouterPod } from "./router-pod.ts";

const LOOK_MS = 50;

type Json = Readonly<Record<string, unknown>>;

interface Template {
  readonly metadata: {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
  readonly spec: PodSpec;
}

interface Running {
  readonly uid: string;
  /** UID of the StatefulSet: pods go with theirs, also when there is another one of the name at once. */
  readonly owner: string | undefined;
  readonly template: string;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

/**
 * What a cluster does with the StatefulSets of routers, on a fake API server: a claim with a folder for its volume, and one pod that is the real router
 * program, started with the arguments of the rendered containers on the files of the rendered ConfigMap and Secret. Only paths and the port of
 * the probes are put in their places on this machine.
 */
export class RouterPods {
  readonly #server: FakeApiServer;
  readonly #folder: string;
  readonly #pods = new Map<string, Running>();
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;
  /** Starts of the router itself, by the name of its pod. */
  readonly starts = new Map<string, number>();

  constructor(server: FakeApiServer, folder: string) {
    this.#server = server;
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

  /** The folder of a claim. */
  volume(claim: string): string {
    return join(this.#folder, claim);
  }

  /** Loses the volume: claim and content, as when its node burned down. */
  loseVolume(claim: string): void {
    this.#server.remove({ kind: KINDS.PersistentVolumeClaim, namespace: "default", name: claim });
    rmSync(this.volume(claim), { recursive: true, force: true });
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      this.#look();
      await pause(LOOK_MS, this.#stop.signal);
    }
  }

  #look(): void {
    const sets = this.#list<FoundStatefulSet>(KINDS.StatefulSet);
    const wanted = new Map(sets.map((set) => [`${set.metadata.name}-0`, set]));
    for (const [name, running] of this.#pods) {
      const set = wanted.get(name);
      const pod = this.#server.read<KubeObject>({ kind: KINDS.Pod, namespace: "default", name });
      const isRight = set?.metadata.uid === running.owner && pod?.metadata.uid === running.uid;
      if (!isRight || set === undefined || templateOf(set) !== running.template) running.stop.abort();
    }
    for (const [name, set] of wanted) if (!this.#pods.has(name)) this.#start(name, set);
  }

  #list<T extends KubeObject>({ group, version, plural }: ResourceKind): T[] {
    const served = this.#server.store.served(group, version, plural);
    return served === undefined ? [] : (this.#server.store.list(served, "default") as unknown as T[]);
  }

  #start(name: string, set: FoundStatefulSet): void {
    const template = (set.spec as unknown as { template: Template }).template;
    const claim = this.#claim(name, set);
    const { labels, annotations } = template.metadata;
    const owner = {
      apiVersion: "apps/v1",
      kind: "StatefulSet",
      name: set.metadata.name,
      uid: set.metadata.uid,
      controller: true,
    };
    const pod = this.#server.put<KubeObject>(KINDS.Pod, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace: "default", labels, annotations, ownerReferences: [owner] },
      spec: template.spec,
      status: { phase: "Pending", podIP: "127.0.0.1" },
    });
    const stop = new AbortController();
    const uid = pod.metadata.uid ?? "";
    const ended = this.#live(name, template.spec, this.volume(claim), stop.signal)
      .catch((error: unknown) => console.error(name, error))
      .then(() => {
        const there = this.#server.read<KubeObject>({ kind: KINDS.Pod, namespace: "default", name });
        if (there?.metadata.uid === uid) this.#server.remove({ kind: KINDS.Pod, namespace: "default", name });
        this.#pods.delete(name);
      });
    this.#pods.set(name, { uid, owner: set.metadata.uid, template: templateOf(set), stop, ended });
  }

  #claim(pod: string, set: FoundStatefulSet): string {
    const [wanted] = (set.spec?.volumeClaimTemplates ?? []) as unknown as { metadata: { name: string }; spec: Json }[];
    const name = `${wanted?.metadata.name}-${pod}`;
    const ref = { kind: KINDS.PersistentVolumeClaim, namespace: "default", name };
    if (this.#server.read(ref) === undefined) {
      rmSync(this.volume(name), { recursive: true, force: true });
      const metadata = { ...wanted?.metadata, name, namespace: "default" };
      this.#server.put(ref.kind, { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata, spec: wanted?.spec });
    }
    mkdirSync(this.volume(name), { recursive: true, mode: 0o700 });
    return name;
  }

  async #live(name: string, spec: PodSpec, volume: string, signal: AbortSignal): Promise<void> {
    const read = (kind: ResourceKind, named: string) =>
      this.#server.read<KubeObject & { data?: Record<string, string> }>({ kind, namespace: "default", name: named })
        ?.data;
    const options: RouterPodOptions = {
      ...{ name, spec, volume, folder: this.#folder },
      config: async (named, key) => read(KINDS.ConfigMap, named)?.[key],
      secret: async (named, key) => {
        const value = read(KINDS.Secret, named)?.[key];
        return value === undefined ? undefined : Buffer.from(value, "base64").toString();
      },
      tell: async (status) => {
        this.#tell(name, status);
        const ready = status.conditions?.find(({ type }) => type === "Ready");
        if (ready !== undefined) this.#setReady(name, ready.status === "True");
      },
      onStart: () => void this.starts.set(name, (this.starts.get(name) ?? 0) + 1),
    };
    await runRouterPod(options, signal);
  }

  #setReady(name: string, isReady: boolean): void {
    const ref = { kind: KINDS.StatefulSet, namespace: "default", name: name.replace(/-0$/, "") };
    const set = this.#server.read<FoundStatefulSet>(ref);
    const running = this.#pods.get(name);
    if (set === undefined || running === undefined || templateOf(set) !== running.template) return;
    const count = isReady ? 1 : 0;
    this.#server.change(
      ref,
      {
        status: {
          observedGeneration: set.metadata.generation ?? 0,
          replicas: 1,
          readyReplicas: count,
          updatedReplicas: 1,
        },
      },
      "status",
    );
  }

  #tell(name: string, status: NonNullable<FoundPod["status"]>): void {
    const ref = { kind: KINDS.Pod, namespace: "default", name };
    if (this.#server.read(ref) !== undefined) this.#server.change(ref, { status: status as never }, "status");
  }
}

const templateOf = ({ spec }: FoundStatefulSet): string => JSON.stringify(spec?.template);
