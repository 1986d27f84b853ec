import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { dirname, join } from "node:path";
import { KINDS, type KubeObject, type ResourceKind } from "../../operator/src/kube/kinds.ts";
import type { FakeApiServer } from "../../operator/src/kube/testing/fake-api-server.ts";
import { Program } from "../network/program.ts";

const PROGRAM = join(import.meta.dirname, "..", "..", "controller", "src", "main.ts");
/** What a pod has at its root. */
const FOLDERS = /\/(etc\/sallyport|var\/lib\/sallyport)(?=[/\s]|$)/g;

interface Holder extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}
interface Container {
  readonly name: string;
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string; readonly valueFrom?: object }[];
  readonly ports?: readonly { readonly containerPort: number }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly readinessProbe?: { readonly httpGet: { readonly path: string } };
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
export interface PodTemplate {
  readonly metadata: {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
  readonly spec: {
    readonly initContainers: readonly Container[];
    readonly containers: readonly [Container];
    readonly volumes: readonly Volume[];
  };
}

interface PodParts {
  readonly server: FakeApiServer;
  readonly name: string;
  readonly namespace: string;
  /** Its root. */
  readonly folder: string;
  /** Address of the machine that is its own; undefined: all of them. */
  readonly host?: string | undefined;
  readonly template: PodTemplate;
  /** Takes what its programs print. */
  readonly print: (lines: readonly string[]) => void;
}

/** A controller's pod: volumes below a folder, and the containers' arguments run with the real program. */
export class ControllerPod {
  readonly name: string;
  readonly template: PodTemplate;
  readonly #parts: PodParts;
  #running: Program | undefined;

  constructor(parts: PodParts) {
    this.#parts = parts;
    this.name = parts.name;
    this.template = parts.template;
  }

  get program(): Program | undefined {
    return this.#running;
  }

  /** Where its port is. */
  get place(): { readonly host: string; readonly port: number } {
    const [{ ports }] = this.template.spec.containers;
    return { host: this.#parts.host ?? "127.0.0.1", port: ports?.[0]?.containerPort ?? 0 };
  }

  /** Resolves when it is ready. */
  async start(): Promise<void> {
    const { initContainers, containers } = this.template.spec;
    for (const container of initContainers) {
      this.#layOut(container);
      const init = this.#start(container);
      const code = await init.exited;
      this.#parts.print(init.tail);
      if (code !== 0) throw new Error(`init ended with ${code}: ${init.tail.join("\n")}`);
    }
    const [main] = containers;
    this.#layOut(main);
    this.#running = this.#start(main);
    await this.#running.ready("its readiness probe", () => this.isReady());
  }

  /** What the kubelet finds. */
  async isReady(): Promise<boolean> {
    const { host, port } = this.place;
    const [{ readinessProbe }] = this.template.spec.containers;
    if (this.#running?.isRunning !== true) return false;
    const options = { host, port, path: readinessProbe?.httpGet.path ?? "/", agent: false, rejectUnauthorized: false };
    return await new Promise((resolve) => {
      request({ ...options, signal: AbortSignal.timeout(5_000) }, (response) => {
        resolve(response.statusCode === 200);
        response.destroy();
      })
        .once("error", () => resolve(false))
        .end();
    });
  }

  async stop(): Promise<void> {
    await this.#running?.stop();
  }

  #start({ name, args, env = [] }: Container): Program {
    const variables = env.map(({ name, value = "", valueFrom }) => [
      name,
      valueFrom === undefined ? this.#below(value) : this.name,
    ]);
    const { host, folder } = this.#parts;
    const bind = host && `${host}:${this.place.port}`;
    const filledIn = (text: string) =>
      variables.reduce((filled, [key, value]) => filled.replaceAll(`$(${key})`, value ?? ""), text);
    return new Program({
      name,
      command: process.execPath,
      args: [PROGRAM, ...args.map((arg) => this.#below(filledIn(arg)))],
      env: {
        ...Object.fromEntries(variables),
        ...(bind && { SALLYPORT_REPLICA_API_BIND: bind, SALLYPORT_REPLICA_CTRL_BIND: bind }),
      },
      logFile: join(folder, `${name}.log`),
    });
  }

  /** Each container sees what it mounts and no more. */
  #layOut({ volumeMounts }: Container): void {
    const { server, namespace, folder } = this.#parts;
    const read = (kind: ResourceKind, name: string) => server.read<Holder>({ kind, namespace, name });
    mkdirSync(folder, { recursive: true });
    rmSync(join(folder, "etc"), { recursive: true, force: true });
    for (const { name, mountPath } of volumeMounts) {
      const volume = this.template.spec.volumes.find((each) => each.name === name);
      if (volume === undefined) throw new Error(`no volume ${name}`);
      const { configMap, secret } = volume;
      if (configMap === undefined && secret === undefined) {
        mkdirSync(this.#below(mountPath), { recursive: true });
        continue;
      }
      const held = configMap ? read(KINDS.ConfigMap, configMap.name) : read(KINDS.Secret, secret?.secretName ?? "");
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

  #below(text: string): string {
    const { folder } = this.#parts;
    return text.replaceAll(FOLDERS, (path) => (text.includes(folder) ? path : join(folder, path)));
  }
}
