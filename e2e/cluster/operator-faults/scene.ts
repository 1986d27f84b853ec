/** The operator's program, one or several, beside a real API server without nodes: what the suites of faults share. */
import { join } from "node:path";
import { findCluster } from "../../../operator/src/kube/client/cluster.ts";
import { HttpKubeClient } from "../../../operator/src/kube/client/http-client.ts";
import { type Condition, conditionOf, type Health, healthOf } from "../../../operator/src/kube/conditions.ts";
import { KINDS as KUBE, type KubeObject, type ObjectRef, type ResourceKind } from "../../../operator/src/kube/kinds.ts";
import { kindNamed } from "../../../operator/src/testing/start-operator.ts";
import { ANNOTATIONS, KINDS } from "../../../packages/resources/src/group.ts";
import { sample } from "../../../packages/resources/src/kinds/testing/samples.ts";
import { eventually } from "../../network/eventually.ts";
import { Program } from "../../network/program.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { Cluster } from "../cluster.ts";
import { kindsServed, OURS } from "../kinds-served.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const SYSTEM = "sallyport-system";
export const PATIENCE_MS = 90_000;

type Spec = Readonly<Record<string, unknown>>;

export interface Found extends KubeObject {
  readonly spec: Spec;
  readonly status: Spec & { readonly conditions?: readonly Condition[]; readonly observedGeneration?: number };
}

/** A controller of a network on this machine. */
export interface ControllerAt {
  readonly port: number;
  readonly ca: string;
  readonly password: string;
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Several of them, of which one leads; default: it works at once. */
  readonly elects?: boolean;
  /** Namespace of its service account; default: that of operator/deploy/cluster. */
  readonly namespace?: string;
}

/** One process of the operator. */
export interface Running {
  readonly program: Program;
  /** The sum of the samples of a metric whose text fits. */
  count(sample: RegExp): Promise<number>;
  page(path: "/readyz" | "/healthz" | "/metrics"): Promise<string>;
  /** Resolves when it is ready. */
  ready(timeoutMs?: number): Promise<void>;
}

/** What is written while nothing is to do: by the operator's own count. Leases and reads are no writes. */
export const KUBERNETES_WRITES = /^rest_client_requests_total\{.*method="(POST|PUT|PATCH|APPLY|DELETE)"/;
export const NETWORK_WRITES =
  /^sallyport_operator_api_requests_total\{method="(POST|PUT|PATCH|DELETE)",resource="(?!authenticate|current-api-session|oidc)/;

/** Everything that the operator makes or writes, besides events and Leases. */
const WRITTEN: readonly ResourceKind[] = [
  ...KINDS,
  KUBE.Secret,
  KUBE.ConfigMap,
  KUBE.Service,
  KUBE.StatefulSet,
  KUBE.PodDisruptionBudget,
  KUBE.NetworkPolicy,
  KUBE.ServiceAccount,
  KUBE.PersistentVolumeClaim,
  KUBE.Pod,
];

/** What the API server would allow whom. */
const ACCESS_REVIEW: ResourceKind = {
  ...{ group: "authorization.k8s.io", version: "v1", plural: "subjectaccessreviews", kind: "SubjectAccessReview" },
  namespaced: false,
};

/** One for a test file. */
export class Scene {
  readonly cluster: Cluster;
  /** The administrator's. */
  readonly client: HttpKubeClient;
  readonly folder: string;
  readonly #running: Program[] = [];

  private constructor(cluster: Cluster, client: HttpKubeClient, folder: string) {
    this.cluster = cluster;
    this.client = client;
    this.folder = folder;
  }

  /** With our CRDs, and the rights of the manifests. */
  static async open(): Promise<Scene> {
    const cluster = await Cluster.start({ nodes: 0 });
    await cluster.kubectl(["apply", "--server-side", "-k", join(ROOT, "operator/deploy/cluster")]);
    await kindsServed(cluster, OURS);
    // Its pods have no node to run on, and the program runs beside the cluster.
    await cluster.kubectl(["delete", "deployment", "sallyport-operator", "--namespace", SYSTEM]);
    const found = await findCluster({ kubeconfig: cluster.kubeconfig });
    const client = new HttpKubeClient(found, { kinds: [...KINDS, ACCESS_REVIEW], manager: "kubectl" });
    return new Scene(cluster, client, makeScratch("operator-faults"));
  }

  /** Starts the program as the service account of its manifests; resolves when it has listed everything. */
  async run(name = "operator", o: RunOptions = {}): Promise<Running> {
    const running = await this.begin(name, o);
    await running.ready(PATIENCE_MS);
    return running;
  }

  /** The same, not waiting for it to be ready. */
  async begin(name = "operator", { env = {}, elects = false, namespace = SYSTEM }: RunOptions = {}): Promise<Running> {
    const kubeconfig = await this.cluster.kubeconfigOf("sallyport-operator", namespace);
    const args = [join(ROOT, "operator/src/main.ts"), "run", "--kubeconfig", kubeconfig];
    if (!elects) args.push("--no-leader-election");
    const program = new Program({
      name,
      command: process.execPath,
      args,
      env: {
        KUBERNETES_SERVICE_HOST: "",
        POD_NAMESPACE: namespace,
        POD_NAME: name,
        SALLYPORT_HEALTH_PORT: "0",
        ...env,
      },
      logFile: join(this.folder, `${name}.log`),
    });
    this.#running.push(program);
    const { healthPort } = JSON.parse(await program.line(/the operator is running/)) as { healthPort: number };
    const page = async (path: string) => await (await fetch(`http://127.0.0.1:${healthPort}${path}`)).text();
    const count = async (sampleText: RegExp) => {
      const lines = (await page("/metrics")).split("\n").filter((line) => sampleText.test(line));
      return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
    };
    const isReady = async () => (await page("/readyz")).includes("readyz check passed");
    const ready = async (timeoutMs?: number) => void (await eventually("the operator is ready", isReady, timeoutMs));
    return { program, page, count, ready };
  }

  /** Ends all programs, in order. */
  async stopAll(): Promise<void> {
    for (const program of this.#running.splice(0)) await program.stop();
  }

  /** A namespace with a Network `main` for a controller. */
  async place(namespace: string, controller: ControllerAt, spec: Spec = {}): Promise<void> {
    await this.cluster.kubectl(["create", "namespace", namespace]);
    const stringData = { username: "admin", password: controller.password };
    await this.client.create({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "admin", namespace },
      stringData,
    } as KubeObject);
    const external = {
      endpoints: [`https://localhost:${controller.port}`],
      caBundle: { inline: controller.ca, configMapRef: null },
      auth: { passwordSecretRef: { name: "admin" }, certificateSecretRef: null },
    };
    await this.declare(namespace, "Network", "main", { external, ...spec });
  }

  /** Applies the smallest manifest of one of our kinds, with `spec` laid over it. */
  async declare(namespace: string, kind: string, name: string, spec: Spec = {}, metadata: Spec = {}): Promise<Found> {
    const manifest = sample(kind, spec, name);
    const object = { ...manifest, metadata: { ...manifest.metadata, namespace, ...metadata } };
    return await this.client.apply<Found>(object as unknown as KubeObject);
  }

  refTo(namespace: string, kind: string, name: string): ObjectRef {
    return { kind: kindNamed(kind), namespace, name };
  }

  async read(namespace: string, kind: string, name: string): Promise<Found | undefined> {
    return await this.client.get<Found>(this.refTo(namespace, kind, name));
  }

  async all(namespace: string, kind: string): Promise<Found[]> {
    return (await this.client.list<Found>(kindNamed(kind), namespace)).items;
  }

  async delete(namespace: string, kind: string, name: string): Promise<void> {
    await this.client.delete(this.refTo(namespace, kind, name));
  }

  async annotate(namespace: string, kind: string, name: string, annotations: Readonly<Record<string, string | null>>) {
    await this.client.patch(this.refTo(namespace, kind, name), { metadata: { annotations } });
  }

  /** Asks for another look at a resource; resolves when that was done. */
  async lookAgain(namespace: string, kind: string, name: string): Promise<Found> {
    const at = new Date().toISOString();
    await this.annotate(namespace, kind, name, { [ANNOTATIONS.reconcile]: at });
    return await this.until(namespace, kind, name, ({ status }) => status.lastHandledReconcileAt === at);
  }

  /** Resolves with the first state that fits. */
  async until(namespace: string, kind: string, name: string, fits: (found: Found) => boolean): Promise<Found> {
    let last: Found | undefined;
    try {
      return await eventually(
        `${kind} ${namespace}/${name}`,
        async () => {
          last = await this.read(namespace, kind, name);
          return last !== undefined && fits(last) ? last : undefined;
        },
        PATIENCE_MS,
      );
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${JSON.stringify(last?.status ?? last, undefined, 1)}`);
    }
  }

  /** Until its condition Ready is so, for its newest generation. */
  async ready(namespace: string, kind: string, name: string, status = "True", reason?: string): Promise<Found> {
    return await this.until(namespace, kind, name, (found) => {
      const ready = readyOf(found);
      const isCurrent = found.status.observedGeneration === found.metadata.generation;
      return isCurrent && ready?.status === status && (reason === undefined || ready.reason === reason);
    });
  }

  async gone(namespace: string, kind: string, name: string): Promise<void> {
    await eventually(
      `${kind} ${namespace}/${name} is gone`,
      async () => (await this.read(namespace, kind, name)) === undefined,
      PATIENCE_MS,
    );
  }

  /** Of every object in a namespace that the operator could have written. */
  async versions(namespace: string): Promise<Record<string, string>> {
    const lists = await Promise.all(
      WRITTEN.map(async (kind) =>
        (await this.client.list<KubeObject>(kind, namespace)).items.map(
          ({ metadata }) => [`${kind.kind}/${metadata.name}`, metadata.resourceVersion ?? ""] as const,
        ),
      ),
    );
    return Object.fromEntries(lists.flat());
  }

  /** Until the API server lets the operator do something, or not any more: it hears of its own roles a moment later. */
  async allowed(
    namespace: string | undefined,
    { group, resource, verb }: { readonly group: string; readonly resource: string; readonly verb: string },
    answer: boolean,
  ): Promise<void> {
    const [plural, subresource] = resource.split("/");
    const name = namespace === undefined ? "kube-system" : undefined;
    const review = {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      metadata: { name: "" },
      spec: {
        user: `system:serviceaccount:${SYSTEM}:sallyport-operator`,
        groups: ["system:serviceaccounts", "system:authenticated"],
        resourceAttributes: { namespace, verb, group, resource: plural, subresource, name },
      },
    };
    await eventually(`it may ${verb} ${resource}: ${answer}`, async () => {
      const { status } = await this.client.create<KubeObject & { status: { allowed: boolean } }>(review);
      return status.allowed === answer;
    });
  }

  /** Reasons of the events about a resource. */
  async events(namespace: string, kind: string, name: string): Promise<string[]> {
    interface Event extends KubeObject {
      readonly reason: string;
      readonly regarding: { readonly kind: string; readonly name: string };
    }
    const { items } = await this.client.list<Event>(KUBE.Event, namespace);
    return items
      .filter(({ regarding }) => regarding.kind === kind && regarding.name === name)
      .map(({ reason }) => reason);
  }

  async close(): Promise<void> {
    await this.stopAll();
    await this.client.close();
    await this.cluster.close();
    removeScratch(this.folder);
  }
}

export const readyOf = (found: Found | undefined): Condition | undefined =>
  conditionOf(found?.status.conditions, "Ready");
export const healthy = (found: Found): Health => healthOf(found).health;
