import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Program } from "../../e2e/network/program.ts";
import { PROGRAM_IMAGES } from "../../images/programs.ts";
import { SERVICE_ACCOUNT_FOLDER } from "../../operator/src/kube/client/cluster.ts";
import { type Sample, samplesOf } from "./metrics-text.ts";

/** Further options of Node for the operator, for example `--cpu-prof --cpu-prof-dir=/somewhere`. */
const MORE_OPTIONS = process.env.SALLYPORT_BENCH_NODE_OPTIONS?.split(" ") ?? [];

export interface OperatorProgramOptions {
  /** The packed program. */
  readonly file: string;
  readonly folder: string;
  /** Of the API server. */
  readonly server: URL;
  readonly token: string;
  /** PEM of the API server's authority. */
  readonly ca: string;
  readonly namespace: string;
}

/** What the operator has asked and written so far. */
export interface Work {
  /** Requests to the Management API, by method and collection: `GET identities`. */
  readonly network: ReadonlyMap<string, number>;
  /** Of these, those that write; logging in is none. */
  readonly networkWrites: number;
  /** Requests to the API server, by method. */
  readonly kube: ReadonlyMap<string, number>;
  readonly looks: number;
}

/**
 * The packed operator as in its pod: with the flags and the environment of its image, and the token and authority of a service account where the kubelet mounts them, which a mount namespace
 * of its own does here.
 */
export class OperatorProgram {
  readonly #program: Program;
  #port = 0;

  constructor(o: OperatorProgramOptions) {
    const mounted = join(o.folder, "service-account");
    mkdirSync(mounted, { recursive: true });
    for (const [name, text] of Object.entries({ token: o.token, "ca.crt": o.ca, namespace: o.namespace })) {
      writeFileSync(join(mounted, name), text, { mode: 0o600 });
    }
    // /var/run is an empty folder to this process, but for the service account.
    const mount = [
      "mount -t tmpfs tmpfs /var/run",
      `mkdir -p ${SERVICE_ACCOUNT_FOLDER}`,
      `mount --bind "$0" ${SERVICE_ACCOUNT_FOLDER}`,
      'exec "$@"',
    ].join(" && ");
    const { nodeFlags = [], env = {} } = PROGRAM_IMAGES.operator ?? {};
    const flags = [...nodeFlags, ...MORE_OPTIONS];
    this.#program = new Program({
      name: "operator",
      command: "unshare",
      args: ["--mount", "sh", "-c", mount, mounted, process.execPath, ...flags, o.file, "run"],
      env: {
        ...env,
        KUBERNETES_SERVICE_HOST: o.server.hostname,
        KUBERNETES_SERVICE_PORT: o.server.port,
        POD_NAMESPACE: o.namespace,
        POD_NAME: "operator",
        SALLYPORT_HEALTH_PORT: "0",
      },
      logFile: join(o.folder, "operator.log"),
    });
  }

  get pid(): number {
    return this.#program.pid;
  }

  /** Resolves when it serves its probes, which is before it is ready. */
  async listening(): Promise<void> {
    const line = await this.#program.line(/the operator is running/);
    this.#port = (JSON.parse(line) as { healthPort: number }).healthPort;
  }

  async isReady(): Promise<boolean> {
    return (await fetch(`http://127.0.0.1:${this.#port}/readyz`)).ok;
  }

  async samples(): Promise<Sample[]> {
    return samplesOf(await (await fetch(`http://127.0.0.1:${this.#port}/metrics`)).text());
  }

  async work(): Promise<Work> {
    const samples = await this.samples();
    const network = new Map<string, number>();
    const kube = new Map<string, number>();
    let networkWrites = 0;
    let looks = 0;
    for (const { name, labels, value } of samples) {
      if (name === "sallyport_operator_api_requests_total") {
        add(network, `${labels.method} ${labels.resource}`, value);
        if (labels.method !== "GET" && labels.resource !== "authenticate") networkWrites += value;
      } else if (name === "rest_client_requests_total") add(kube, labels.method ?? "", value);
      else if (name === "controller_runtime_reconcile_total") looks += value;
    }
    return { network, networkWrites, kube, looks };
  }

  get isRunning(): boolean {
    return this.#program.isRunning;
  }

  /** What the work gives. @throws Error with the end of its log when the operator ends meanwhile */
  async during<T>(work: Promise<T>): Promise<T> {
    const ended = this.#program.exited.then((code) => {
      throw new Error(`the operator ended with exit code ${code}\n${this.#program.tail.slice(-3).join("\n")}`);
    });
    return await Promise.race([work, ended]);
  }

  /** Resident and proportional memory, MiB. */
  memory(): { readonly rss: number; readonly pss: number } {
    const text = readFileSync(`/proc/${this.pid}/smaps_rollup`, "utf8");
    const of = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1]) / 1024;
    return { rss: of("Rss"), pss: of("Pss") };
  }

  async stop(): Promise<void> {
    await this.#program.stop();
  }
}

const add = (counts: Map<string, number>, key: string, value: number): void =>
  void counts.set(key, (counts.get(key) ?? 0) + value);
