import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { join } from "node:path";
import { SerialQueue } from "@sallyport/async";
import { KINDS, type KubeObject } from "../../operator/src/kube/kinds.ts";
import type { FakeApiServer } from "../../operator/src/kube/testing/fake-api-server.ts";
import type { Program } from "../network/program.ts";
import { ControllerPod, type PodTemplate } from "./controller-pod.ts";

interface Workload extends KubeObject {
  readonly spec: { readonly replicas?: number; readonly template: PodTemplate };
}

interface Named {
  readonly namespace: string;
  readonly name: string;
}

/** How often the kubelet looks, and how often in a row a pod has to fail. */
const PROBE_MS = 1_000;
const FAILURES = 2;

/**
 * Plays controller manager and kubelet for the StatefulSets of managed Networks on a fake API server: runs their pods, and writes the status. A changed template
 * replaces the pods one after the other, the last first; the claim's volume stays.
 */
export class ControllerPods {
  readonly #server: FakeApiServer;
  readonly #folder: string;
  readonly #hostOf: ((ordinal: number) => string) | undefined;
  readonly #stop: () => void;
  readonly #pods = new Map<number, ControllerPod>();
  readonly #ready = new Set<number>();
  readonly #failures = new Map<ControllerPod, number>();
  readonly #work = new SerialQueue();
  #probing: NodeJS.Timeout | undefined;
  #service: Server | undefined;
  #isPaused = false;
  /** How often a pod was started. */
  starts = 0;
  /** The smallest number of ready pods since it was set. */
  leastReady = 0;
  /** Connections that the Service led to a pod where nothing listens. */
  refused = 0;
  /** Everything that the program printed, all pods together. */
  readonly printed: string[] = [];

  /** @param hostOf the address of the machine that is a pod's own, where there are several */
  constructor(server: FakeApiServer, folder: string, hostOf?: (ordinal: number) => string) {
    this.#server = server;
    this.#folder = folder;
    this.#hostOf = hostOf;
    this.#stop = server.store.history.onChange(({ object }) => {
      if (object.kind === "StatefulSet") this.#soon(object as unknown as Workload);
    });
  }

  get program(): Program | undefined {
    return this.programOf(0);
  }

  programOf(ordinal: number): Program | undefined {
    return this.#pods.get(ordinal)?.program;
  }

  /** Plays the Service of all pods on a port of 127.0.0.1: leads each connection to a pod that is ready. */
  async serve(port: number): Promise<void> {
    let turn = 0;
    const service = createServer((near) => {
      const ready = [...this.#ready].flatMap((ordinal) => this.#pods.get(ordinal) ?? []);
      const pod = ready[turn++ % Math.max(1, ready.length)];
      near.on("error", () => undefined);
      if (pod === undefined) return void near.destroy();
      const far = connect(pod.place).on("error", () => near.destroy());
      far.once("error", () => void this.refused++);
      near.pipe(far).pipe(near);
      near.once("close", () => far.destroy());
      far.once("close", () => near.destroy());
    });
    await new Promise<void>((resolve) => service.listen(port, "127.0.0.1", resolve));
    if ((service.address() as AddressInfo).port !== port) throw new Error(`the Service is not at port ${port}`);
    this.#service = service;
  }

  /** Ends the process of a pod, as a node that is gone would; the status says so. It stays away until it is started. */
  async kill(workload: Named, ordinal = 0): Promise<void> {
    await this.#endProcess(ordinal);
    this.#setReady(workload, ordinal, false);
  }

  /** The same, and the Service leads to the pod while `work` is under way: Kubernetes notices it after that. */
  async killUnnoticed(workload: Named, ordinal: number, work: () => Promise<void>): Promise<void> {
    clearInterval(this.#probing);
    this.#probing = undefined;
    await this.#endProcess(ordinal);
    await work();
    this.#setReady(workload, ordinal, false);
  }

  async #endProcess(ordinal: number): Promise<void> {
    await this.#work.idle();
    this.#isPaused = true;
    const pod = this.#pods.get(ordinal);
    pod?.program?.signal("SIGKILL");
    await pod?.program?.exited;
  }

  /** Starts again what was killed. */
  async start(workload: Named, ordinal = 0): Promise<void> {
    const found = this.#server.read<Workload>({ kind: KINDS.StatefulSet, ...workload });
    if (found === undefined) throw new Error(`no StatefulSet ${workload.name}`);
    this.#isPaused = false;
    this.#pods.delete(ordinal);
    this.#soon(found);
    await this.#work.idle();
  }

  async close(): Promise<void> {
    this.#stop();
    clearInterval(this.#probing);
    await this.#work.idle();
    await Promise.all([...this.#pods.values()].map((pod) => pod.stop()));
    this.#service?.close();
  }

  #soon(workload: Workload): void {
    const isGone = this.#server.read({ kind: KINDS.StatefulSet, ...place(workload) }) === undefined;
    void this.#work
      .run(() => this.#reconcile(place(workload), isGone ? 0 : (workload.spec.replicas ?? 1), workload.spec.template))
      .catch((error: unknown) => void this.printed.push(`helper: ${String(error)}`));
  }

  async #reconcile(workload: Named, replicas: number, template: PodTemplate): Promise<void> {
    if (this.#isPaused) return;
    const ordinals = Array.from({ length: replicas }, (_, i) => i);
    const surplus = [...this.#pods.keys()].filter((ordinal) => ordinal >= replicas);
    await Promise.all(surplus.map((ordinal) => this.#end(workload, ordinal)));
    const missing = ordinals.filter((ordinal) => !this.#pods.has(ordinal));
    await Promise.all(missing.map((ordinal) => this.#run(workload, ordinal, template)));
    const isStale = (ordinal: number) => JSON.stringify(this.#pods.get(ordinal)?.template) !== JSON.stringify(template);
    for (const ordinal of ordinals.toReversed().filter(isStale)) {
      await this.#end(workload, ordinal);
      await this.#run(workload, ordinal, template);
    }
    if (replicas > 1) this.#probing ??= setInterval(() => void this.#probe(workload), PROBE_MS).unref();
  }

  async #run(workload: Named, ordinal: number, template: PodTemplate): Promise<void> {
    const { namespace } = workload;
    const name = `${workload.name}-${ordinal}`;
    const print = (lines: readonly string[]) => void this.printed.push(...lines);
    const folder = join(this.#folder, String(ordinal));
    const host = this.#hostOf?.(ordinal);
    const pod = new ControllerPod({ server: this.#server, name, namespace, folder, host, template, print });
    this.#pods.set(ordinal, pod);
    this.starts += 1;
    if (this.#hostOf !== undefined) {
      const { labels, annotations } = template.metadata;
      const metadata = { name, namespace, labels, annotations };
      this.#server.put(KINDS.Pod, { apiVersion: "v1", kind: "Pod", metadata, spec: {}, status: {} });
    }
    await pod.start();
    this.#setReady(workload, ordinal, true);
  }

  async #end(workload: Named, ordinal: number): Promise<void> {
    this.#setReady(workload, ordinal, false);
    await this.#pods.get(ordinal)?.stop();
    this.#pods.delete(ordinal);
    const ref = { kind: KINDS.Pod, namespace: workload.namespace, name: `${workload.name}-${ordinal}` };
    if (this.#server.read(ref) !== undefined) this.#server.remove(ref);
    this.#status(workload);
  }

  async #probe(workload: Named): Promise<void> {
    for (const [ordinal, pod] of this.#pods) {
      const isReady = await pod.isReady();
      if (this.#pods.get(ordinal) !== pod) continue;
      const failures = isReady ? 0 : (this.#failures.get(pod) ?? 0) + 1;
      this.#failures.set(pod, failures);
      const isUp = isReady || (this.#ready.has(ordinal) && failures < FAILURES);
      if (isUp !== this.#ready.has(ordinal)) this.#setReady(workload, ordinal, isUp);
    }
  }

  #setReady(workload: Named, ordinal: number, isReady: boolean): void {
    if (isReady) this.#ready.add(ordinal);
    else this.#ready.delete(ordinal);
    this.leastReady = Math.min(this.leastReady, this.#ready.size);
    const ref = { kind: KINDS.Pod, namespace: workload.namespace, name: `${workload.name}-${ordinal}` };
    const conditions = [{ type: "Ready", status: isReady ? "True" : "False" }];
    if (this.#server.read(ref) !== undefined) this.#server.change(ref, { status: { conditions } }, "status");
    this.#status(workload);
  }

  #status(workload: Named): void {
    const ref = { kind: KINDS.StatefulSet, ...workload };
    const found = this.#server.read<Workload>(ref);
    if (found === undefined) return;
    const { template } = found.spec;
    const isNew = (pod: ControllerPod) => JSON.stringify(pod.template) === JSON.stringify(template);
    const status = {
      observedGeneration: found.metadata.generation ?? 1,
      replicas: this.#pods.size,
      readyReplicas: this.#ready.size,
      updatedReplicas: [...this.#pods.values()].filter(isNew).length,
    };
    this.#server.change(ref, { status }, "status");
  }
}

const place = ({ metadata: { namespace = "", name } }: KubeObject) => ({ namespace, name });
