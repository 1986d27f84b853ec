import { readFileSync } from "node:fs";
import { join } from "node:path";
import { mapLimit } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { Cluster } from "../../e2e/cluster/cluster.ts";
import { ClusterRouterPods } from "../../e2e/operator/cluster-router-pods.ts";
import { findCluster } from "../../operator/src/kube/client/cluster.ts";
import { HttpKubeClient } from "../../operator/src/kube/client/http-client.ts";
import type { KubeObject } from "../../operator/src/kube/kinds.ts";
import { KINDS } from "../../packages/resources/src/group.ts";
import { pack } from "../../scripts/pack.ts";
import { processTree, treeCpuSeconds } from "../api/processes.ts";
import { NAMESPACE } from "./declared.ts";
import { OperatorProgram } from "./operator-program.ts";
import { type OverlayController, startController } from "./overlay-controller.ts";
import { Readiness } from "./readiness.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const SYSTEM = "sallyport-system";
/** Objects that are applied at the same time. */
const APPLIED_AT_ONCE = 32;
export const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** A real API server with its controllers, our controller with PostgreSQL, the operator with its rights, and real routers for pods. */
export class Scene {
  readonly controller: OverlayController;
  readonly readiness: Readiness;
  readonly #cluster: Cluster;
  readonly #client: HttpKubeClient;
  readonly #pods: ClusterRouterPods;
  readonly #folder: string;
  readonly #file: string;
  #operator: OperatorProgram | undefined;

  private constructor(o: {
    cluster: Cluster;
    client: HttpKubeClient;
    controller: OverlayController;
    folder: string;
    file: string;
    router: string;
  }) {
    this.#cluster = o.cluster;
    this.#client = o.client;
    this.controller = o.controller;
    this.#folder = o.folder;
    this.#file = o.file;
    this.readiness = new Readiness(o.client);
    this.#pods = new ClusterRouterPods(o.client, join(o.folder, "pods"), { program: o.router });
  }

  /** @param operator file of a packed operator; that of this tree when left out */
  static async open(folder: string, operator?: string): Promise<Scene> {
    const out = (program: string): string => join(ROOT, "dist", "bench", program);
    const file = operator ?? (await pack("operator", out("operator")));
    const router = await pack("router", out("router"));
    const controllerFile = await pack("controller", out("controller"));
    const [cluster, controller] = await Promise.all([
      Cluster.start({ nodes: 0 }),
      startController(controllerFile, folder),
    ]);
    await cluster.kubectl(["apply", "--server-side", "-k", join(ROOT, "operator", "deploy", "cluster")]);
    // It runs beside the cluster.
    await cluster.kubectl(["delete", "deployment", "sallyport-operator", "--namespace", SYSTEM]);
    const selector = "--selector=app.kubernetes.io/part-of=sallyport";
    await cluster.kubectl(["wait", "--for=condition=Established", "crd", selector, "--timeout=60s"]);
    await cluster.kubectl(["create", "namespace", NAMESPACE]);
    const at = await findCluster({ kubeconfig: cluster.kubeconfig });
    const client = new HttpKubeClient(at, { kinds: KINDS, manager: "owner", userAgent: "sallyport-bench" });
    return new Scene({ cluster, client, controller, folder, file, router });
  }

  get operator(): OperatorProgram {
    if (this.#operator === undefined) throw new Error("the operator does not run");
    return this.#operator;
  }

  /** Resolves when it serves its probes. */
  async startOperator(): Promise<OperatorProgram> {
    const token = await this.#cluster.kubectl(["create", "token", "sallyport-operator", "--namespace", SYSTEM]);
    const config = JSON.stringify(await this.#kubeconfig());
    const ca = /"certificate-authority-data":"([^"]+)"/.exec(config)?.[1] ?? "";
    this.#operator = new OperatorProgram({
      file: this.#file,
      folder: this.#folder,
      server: new URL(this.#cluster.server),
      token: token.trim(),
      ca: Buffer.from(ca, "base64").toString(),
      namespace: SYSTEM,
    });
    await this.#operator.listening();
    return this.#operator;
  }

  async stopOperator(): Promise<void> {
    await this.#operator?.stop();
    this.#operator = undefined;
  }

  /** As its owner, all at once. */
  async apply(objects: readonly KubeObject[]): Promise<void> {
    await mapLimit(objects, APPLIED_AT_ONCE, (object) => this.#client.apply(object, { timeoutMs: 60_000 }));
  }

  /** CPU seconds so far of everything that works for the operator. */
  cpuSeconds(): Readonly<Record<string, number>> {
    const of = (pattern: RegExp): number =>
      treeCpuSeconds(this.#clusterProcesses().filter((pid) => pattern.test(commandOf(pid))));
    return {
      operator: this.#operator === undefined ? 0 : treeCpuSeconds([this.operator.pid]),
      controller: this.controller.cpuSeconds(),
      apiServer: of(/^[^\0]*kube-apiserver\0/),
      etcd: of(/--data-dir=[^\0]*etcd/),
    };
  }

  async close(): Promise<void> {
    await this.stopOperator();
    await this.#pods.close();
    await this.readiness.close();
    await this.#client.close();
    await this.controller.stop();
    await this.#cluster.close();
  }

  async #kubeconfig(): Promise<unknown> {
    return JSON.parse(await this.#cluster.kubectl(["config", "view", "--raw", "--output", "json"]));
  }

  /** Those that this process started. */
  #clusterProcesses(): number[] {
    return processTree(process.pid);
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1");
  } catch {
    return "";
  }
}
