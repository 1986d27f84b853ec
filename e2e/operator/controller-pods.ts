import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { SerialQueue } from "@sallyport/async";
import { KINDS, type KubeObject, type ResourceKind } from "../../operator/src/kube/kinds.ts";
import type { FakeApiServer } from "../../operator/src/kube/testing/fake-api-server.ts";
import { accepts, Program } from "../network/program.ts";

const PROGRAM = join(import.meta.dirname, "..", "..", "controller", "src", "main.ts");
/** What a pod has at its root. */
const FOLDERS = /\/(etc\/sallyport|var\/lib\/sallyport)(?=[/\s]|$)/g;

interface Holder extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}
interface Container {
  readonly name: string;
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly ports?: readonly { readonly containerPort: number }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
}
interface Volume {
  readonly name: string;
  readonly configMap?: { readonly name: string };
  readonly secret?: {
    readonly secretName: string;
    readonly optional?: boolean;
    readonly items?: readonly { readonly key: string; readonly path: string }[];
  };
}
interface Workload extends KubeObject {
  readonly spec: {
    readonly template: {
      readonly metadata: { readonly annotations: Readonly<Record<string, string>> };
      readonly spec: {
        readonly initContainers: readonly Container[];
        readonly containers: readonly [Container];
        readonly volumes: readonly Volume[];
      };
    };
  };
}

/**
 * Plays controller manager and kubelet for the StatefulSets of managed Networks on a fake API server: lays out the volumes from ConfigMaps and Secrets below a
 * folder, runs the containers' arguments with the real program, and writes the status. A changed template restarts the pod; the claim's volume stays.
 */
export class ControllerPods {
  readonly #server: FakeApiServer;
  readonly #folder: string;
  readonly #stop: () => void;
  #running: Program | undefined;
  #template = "";
  readonly #work = new SerialQueue();
  /** How often a pod was started. */
  starts = 0;
  /** Everything that the program printed, all pods together. */
  readonly printed: string[] = [];

  constructor(server: FakeApiServer, folder: string) {
    this.#server = server;
    this.#folder = folder;
    this.#stop = server.store.history.onChange(({ object }) => {
      if (object.kind === "StatefulSet") this.#soon(object as unknown as Workload);
    });
  }

  get program(): Program | undefined {
    return this.#running;
  }

  /** Ends the process, as a node that is gone would; the status says so. */
  async kill(workload: { readonly namespace: string; readonly name: string }): Promise<void> {
    await this.#work.idle();
    this.#running?.signal("SIGKILL");
    await this.#running?.exited;
    this.#running = undefined;
    this.#status(workload, 0);
  }

  /** Starts it again. */
  async start(workload: { readonly namespace: string; readonly name: string }): Promise<void> {
    const found = this.#server.read<Workload>({ kind: KINDS.StatefulSet, ...workload });
    if (found === undefined) throw new Error(`no StatefulSet ${workload.name}`);
    this.#template = "";
    this.#soon(found);
    await this.#work.idle();
  }

  async close(): Promise<void> {
    this.#stop();
    await this.#work.idle();
    await this.#running?.stop();
  }

  #soon(workload: Workload): void {
    const isGone = this.#server.read({ kind: KINDS.StatefulSet, ...place(workload) }) === undefined;
    void this.#work
      .run(() => (isGone ? this.#end() : this.#run(workload)))
      .catch((error: unknown) => void this.printed.push(`helper: ${String(error)}`));
  }

  async #end(): Promise<void> {
    await this.#running?.stop();
    this.#running = undefined;
    this.#template = "";
  }

  async #run(workload: Workload): Promise<void> {
    const { template } = workload.spec;
    const text = JSON.stringify(template);
    if (text === this.#template) return;
    this.#template = text;
    if (this.#running !== undefined) {
      this.#status(place(workload), 0);
      await this.#running.stop();
    }
    const { initContainers, containers, volumes } = template.spec;
    for (const container of initContainers) {
      this.#layOut(workload, container, volumes);
      const init = this.#start(container);
      const code = await init.exited;
      this.printed.push(...init.tail);
      if (code !== 0) throw new Error(`init ended with ${code}: ${init.tail.join("\n")}`);
    }
    const [main] = containers;
    this.#layOut(workload, main, volumes);
    const program = this.#start(main);
    this.#running = program;
    this.starts += 1;
    const port = main.ports?.[0]?.containerPort ?? 0;
    await program.ready("its port", () => accepts(port));
    this.#status(place(workload), 1);
  }

  #start({ name, args, env = [] }: Container): Program {
    return new Program({
      name,
      command: process.execPath,
      args: [PROGRAM, ...args.map((arg) => this.#below(arg))],
      env: Object.fromEntries(env.map(({ name, value = "" }) => [name, this.#below(value)])),
      logFile: join(this.#folder, `${name}.log`),
    });
  }

  /** Each container sees what it mounts and no more. */
  #layOut({ metadata: { namespace = "" } }: Workload, { volumeMounts }: Container, volumes: readonly Volume[]): void {
    rmSync(join(this.#folder, "etc"), { recursive: true, force: true });
    for (const { name, mountPath } of volumeMounts) {
      const volume = volumes.find((each) => each.name === name);
      if (volume === undefined) throw new Error(`no volume ${name}`);
      const { configMap, secret } = volume;
      if (configMap === undefined && secret === undefined) {
        mkdirSync(this.#below(mountPath), { recursive: true });
        continue;
      }
      const held = configMap
        ? this.#read(KINDS.ConfigMap, namespace, configMap.name)
        : this.#read(KINDS.Secret, namespace, secret?.secretName ?? "");
      if (held === undefined) {
        if (secret?.optional) continue;
        throw new Error(`${name}: the object of the volume does not exist`);
      }
      const data = Object.entries(held.data ?? {}).filter(
        ([key]) => secret?.items === undefined || secret.items.some((item) => item.key === key),
      );
      for (const [key, value] of data) {
        const path = secret?.items?.find((item) => item.key === key)?.path ?? key;
        const text = configMap ? this.#below(value) : Buffer.from(value, "base64");
        const file = join(this.#below(mountPath), path);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, text, { mode: 0o600 });
      }
    }
  }

  #read(kind: ResourceKind, namespace: string, name: string): Holder | undefined {
    return this.#server.read<Holder>({ kind, namespace, name });
  }

  #below(text: string): string {
    return text.replaceAll(FOLDERS, (path) => (text.includes(this.#folder) ? path : join(this.#folder, path)));
  }

  #status(workload: { readonly namespace: string; readonly name: string }, ready: number): void {
    const ref = { kind: KINDS.StatefulSet, ...workload };
    const found = this.#server.read(ref);
    if (found === undefined) return;
    const status = {
      observedGeneration: found.metadata.generation ?? 1,
      replicas: 1,
      readyReplicas: ready,
      updatedReplicas: 1,
    };
    this.#server.change(ref, { status }, "status");
  }
}

const place = ({ metadata: { namespace = "", name } }: KubeObject) => ({ namespace, name });
