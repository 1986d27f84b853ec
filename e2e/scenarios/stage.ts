/**
 * A namespace of its own for a scenario, in the run's cluster, where the operator is installed.
 *
 * ```ts
 * describe.skipIf(!hasCluster)("two routers", () => {
 *   let stage: Stage;
 *   beforeAll(async () => {
 *     stage = await Stage.open("routers");
 *     await stage.apply({ apiVersion: "sallyport.dev/v1alpha1", kind: "Network", metadata: { name: "main" }, spec: { managed: {} } });
 *     await stage.ready();
 *   });
 *   afterAll(async () => await stage?.close());
 * });
 * ```
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseAllDocuments, stringify } from "yaml";
import { type Condition, type Health, healthOf, type Judged } from "../../operator/src/kube/conditions.ts";
import type { ClusterHandle } from "../cluster/ways/handle.ts";
import { eventually } from "../network/eventually.ts";
import { OPERATOR, SYSTEM } from "./installation.ts";
import { ROOT, VERSION } from "./root.ts";
import { runCluster } from "./run-cluster.ts";

export { hasCluster } from "./run-cluster.ts";

const PROGRAMS = ["controller", "router", "operator", "tunnel"];
const OURS = new RegExp(`(^|/)sallyport/(${PROGRAMS.join("|")}):`);

export type Security = "restricted" | "baseline" | "privileged";

export interface StageOptions {
  /** What the namespace lets pods do; `restricted` when absent. */
  readonly security?: Security;
  /** Our containers may end and be started again: the scenario makes them. Otherwise that is an error at the end. */
  readonly restarts?: boolean;
}

/** One of our resources as it is found. */
export interface Found extends Judged {
  readonly kind: string;
  readonly metadata: Judged["metadata"] & {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec: Readonly<Record<string, unknown>>;
}

export interface Judgement {
  readonly kind: string;
  readonly name: string;
  readonly health: Health;
  readonly message: string;
}

/** As in a kustomization, with the operations of a JSON patch. */
export interface KustomizePatch {
  readonly target: { readonly kind: string; readonly name?: string };
  readonly patch: readonly object[];
}

interface Pod {
  readonly metadata: { readonly name: string; readonly deletionTimestamp?: string };
  readonly spec: { readonly containers: readonly { readonly name: string; readonly image: string }[] };
  readonly status?: {
    readonly podIP?: string;
    readonly containerStatuses?: readonly { readonly name: string; readonly restartCount: number }[];
  };
}

export class Stage {
  readonly namespace: string;
  readonly cluster: ClusterHandle;
  readonly #restarts: boolean;
  /** Of pods that have answered. */
  readonly #addresses = new Map<string, string>();

  private constructor(cluster: ClusterHandle, namespace: string, restarts: boolean) {
    this.cluster = cluster;
    this.namespace = namespace;
    this.#restarts = restarts;
  }

  /** Makes the namespace `<name>-<something>`. */
  static async open(name: string, { security = "restricted", restarts = false }: StageOptions = {}): Promise<Stage> {
    const stage = new Stage(runCluster(), `${name}-${randomBytes(3).toString("hex")}`, restarts);
    const labels = { "pod-security.kubernetes.io/enforce": security };
    const metadata = { name: stage.namespace, labels };
    await stage.cluster.apply(JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata }));
    return stage;
  }

  /** A namespace that the scenario makes itself, by the manifests that it is about. */
  static of(namespace: string, { restarts = false }: Pick<StageOptions, "restarts"> = {}): Stage {
    return new Stage(runCluster(), namespace, restarts);
  }

  /** kubectl in the namespace; resolves with what it printed. */
  async kubectl(...args: string[]): Promise<string> {
    return await this.cluster.kubectl([`--namespace=${this.namespace}`, ...args]);
  }

  /** The same; an error has beside it what else kubectl and the operator say. */
  async explained(...args: string[]): Promise<string> {
    return await this.explain(this.kubectl(...args));
  }

  /** Server-side, strict; the namespace is filled in. */
  async apply(manifest: object | readonly object[] | string): Promise<void> {
    const objects = typeof manifest === "string" ? parsed(manifest) : [manifest].flat();
    const placed = objects.map((each) => {
      const { metadata } = each as { metadata: object };
      return stringify(
        { ...each, metadata: { namespace: this.namespace, ...metadata } },
        { aliasDuplicateObjects: false },
      );
    });
    await this.cluster.apply(placed.join("---\n"));
  }

  /** A folder for `kubectl apply -k`, such as one of examples/, with this namespace in place of its own and the images as they are called here. */
  async applyFolder(path: string, patches: readonly KustomizePatch[] = []): Promise<void> {
    const folder = await mkdtemp(join(tmpdir(), "sallyport-stage-"));
    try {
      const { imagePrefix } = this.cluster;
      const images = PROGRAMS.map((program) => `sallyport/${program}`);
      const kustomization = {
        apiVersion: "kustomize.config.k8s.io/v1beta1",
        kind: "Kustomization",
        namespace: this.namespace,
        resources: [relative(folder, join(ROOT, path))],
        patches: patches.map(({ target, patch }) => ({ target, patch: JSON.stringify(patch) })),
        ...(imagePrefix && { images: images.map((name) => ({ name, newName: `${imagePrefix}${name}` })) }),
      };
      await writeFile(join(folder, "kustomization.yaml"), stringify(kustomization));
      await this.cluster.kubectl(["apply", "-k", folder]);
    } finally {
      await rm(folder, { recursive: true });
    }
  }

  /** Until all of our resources in the namespace are ready. */
  async ready(timeoutS = 300): Promise<void> {
    await this.explained("wait", "--for=condition=Ready", "overlay", "--all", `--timeout=${timeoutS}s`);
  }

  /** Until kubectl sees what `--for=` says: `condition=Ready`, `jsonpath={.status.phase}=Running`, `delete`, … */
  async wait(until: string, what: string, timeoutS = 300): Promise<void> {
    await this.explained("wait", `--for=${until}`, what, `--timeout=${timeoutS}s`);
  }

  /** One of our resources, or any other object. */
  async get<T = Found>(kind: string, name: string): Promise<T> {
    return await this.cluster.get<T>(kind, name, this.namespace);
  }

  async condition(kind: string, name: string, type: string): Promise<Condition | undefined> {
    const { status } = await this.get(kind, name);
    return status?.conditions?.find((each) => each.type === type) as Condition | undefined;
  }

  /** All of our resources in the namespace. */
  async resources(): Promise<Found[]> {
    return (JSON.parse(await this.kubectl("get", "overlay", "--output=json")) as { items: Found[] }).items;
  }

  /** How tools like Flux and Argo CD judge each of them. */
  async health(): Promise<Judgement[]> {
    return (await this.resources()).map((each) => ({ kind: each.kind, name: each.metadata.name, ...healthOf(each) }));
  }

  /** Kind, name and version of every object of some kinds, once none has changed for a second. */
  async settled(kinds: string): Promise<string[]> {
    let last: string[] | undefined;
    return await eventually(
      "nothing changes any more",
      async () => {
        const now = await this.versions(kinds);
        const isSame = now.join() === last?.join();
        last = now;
        if (isSame) return now;
        await delay(1_000);
        return undefined;
      },
      60_000,
    );
  }

  /** The same as they are now. */
  async versions(kinds: string): Promise<string[]> {
    const each = "{range .items[*]}{.kind}/{.metadata.name}={.metadata.resourceVersion}{'\\n'}{end}";
    return (await this.kubectl("get", kinds, `--output=jsonpath=${each}`)).split("\n");
  }

  /** Names of the pods that a selector fits and that are not about to end. */
  async pods(selector: string): Promise<string[]> {
    const found = JSON.parse(await this.kubectl("get", "pods", `--selector=${selector}`, "--output=json")) as {
      items: Pod[];
    };
    return found.items
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map(({ metadata }) => metadata.name);
  }

  /** What a port of a pod answers over HTTP: straight where its address can be reached, else by way of the API server. */
  async fetchFrom(pod: string, port: number, path = "/"): Promise<string> {
    if (!this.cluster.reachable)
      return await this.kubectl(
        "get",
        "--raw",
        `/api/v1/namespaces/${this.namespace}/pods/${pod}:${port}/proxy${path}`,
      );
    const ip = this.#addresses.get(pod) ?? (await this.get<Pod>("pod", pod)).status?.podIP;
    if (ip === undefined) throw new Error(`${pod} has no address yet`);
    this.#addresses.set(pod, ip);
    try {
      const answer = await fetch(`http://${ip}:${port}${path}`, { signal: AbortSignal.timeout(60_000) });
      if (!answer.ok) throw new Error(`${pod}:${port}${path} answered ${answer.status}: ${await answer.text()}`);
      return await answer.text();
    } catch (error) {
      // Another pod of this name may have another one.
      this.#addresses.delete(pod);
      throw error;
    }
  }

  /** Runs the Node of one of our images in a container, which has no shell; resolves with what it printed. */
  async node(pod: string, container: string, script: string): Promise<string> {
    return await this.kubectl("exec", pod, `--container=${container}`, "--", "/usr/local/bin/node", "-e", script);
  }

  /** What the operators of the cluster have said, both pods. */
  async operatorLog(tail = -1): Promise<string> {
    const selector = `--selector=app.kubernetes.io/name=${OPERATOR}`;
    return await this.cluster.kubectl(["logs", `--namespace=${SYSTEM}`, selector, `--tail=${tail}`]);
  }

  /** What went wrong is in what kubectl and the operator say. */
  async explain<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      const here = `--namespace=${this.namespace}`;
      const seen = await Promise.all([
        this.cluster.attempt(["get", "overlay,pods,pvc", here, "--output=wide"]),
        this.cluster.attempt(["get", "events", here, "--field-selector=type=Warning", "--sort-by=.lastTimestamp"]),
        this.operatorLog(2_000).then((stdout) => ({ stdout: lastAbout(this.namespace, stdout) })),
      ]);
      throw new Error(`${(error as Error).message}\n${seen.map(({ stdout }) => stdout).join("\n")}`, { cause: error });
    }
  }

  /** Deletes the namespace and waits until it is gone. @throws Error when one of our containers ended and was started again */
  async close(): Promise<void> {
    const restarted = this.#restarts ? [] : await this.#restarted();
    await this.cluster.kubectl(["delete", "namespace", this.namespace, "--ignore-not-found", "--timeout=300s"]);
    if (restarted.length > 0) throw new Error(`containers were started again: ${restarted.join(", ")}`);
  }

  async #restarted(): Promise<string[]> {
    const { items } = JSON.parse(await this.kubectl("get", "pods", "--output=json")) as { items: Pod[] };
    return items.flatMap(({ metadata, spec, status }) =>
      (status?.containerStatuses ?? []).flatMap(({ name, restartCount }) => {
        const isOurs = OURS.test(spec.containers.find((each) => each.name === name)?.image ?? "");
        return isOurs && restartCount > 0 ? [`${metadata.name}/${name} (${restartCount})`] : [];
      }),
    );
  }
}

/** The image of a program as the cluster of the run has it. */
export const imageOf = (program: string): string => `${runCluster().imagePrefix}sallyport/${program}:${VERSION}`;

const parsed = (manifests: string): object[] =>
  parseAllDocuments(manifests)
    .map((document) => document.toJS() as object | null)
    .filter((each) => each !== null);

/** Lines of an operator's log that name a namespace, and all that are no mere information. */
const lastAbout = (namespace: string, log: string): string =>
  log
    .split("\n")
    .filter((line) => line.includes(namespace) || /"level":"(warn|error|fatal)"/.test(line))
    .slice(-20)
    .join("\n");
