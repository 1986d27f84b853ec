/** The operator in this process, on a fake API server with our CRDs: for tests of kinds. Networks are real ones, or whatever the test puts there. */
import { setTimeout as delay } from "node:timers/promises";
import { createLogger } from "@sallyport/program/logging";
import { API_VERSION, KINDS } from "@sallyport/resources";
import { customResourceDefinition } from "@sallyport/resources/crd";
import { DEFINITIONS } from "@sallyport/resources/definitions";
import { sample } from "@sallyport/resources/testing/samples";
import type { NetworkSettings } from "../controller-client/network-clients.ts";
import { controllers } from "../kinds/reconcilers.ts";
import { clusterAt } from "../kube/client/cluster.ts";
import { HttpKubeClient } from "../kube/client/http-client.ts";
import { type Condition, conditionOf } from "../kube/conditions.ts";
import { KINDS as KUBE, type KubeObject, keyOf, type ObjectRef, type ResourceKind } from "../kube/kinds.ts";
import { Metrics } from "../kube/metrics.ts";
import { FakeApiServer, type SeenRequest } from "../kube/testing/fake-api-server.ts";
import type { KindReconciler } from "../loop/kind-reconciler.ts";
import { Operator } from "../program/operator.ts";
import { parseCommand } from "../program/settings.ts";

/** A network that exists already, as the test knows it. */
export interface TestNetwork {
  readonly endpoint: string;
  readonly ca: string;
  readonly username?: string;
  readonly password?: string;
  readonly settings?: Partial<NetworkSettings>;
}

export interface StartOptions {
  /** Default: all of the program; with `networks` those without the one of Networks. */
  readonly reconcilers?: readonly KindReconciler[];
  /** An API server that runs already; default: a new one, closed with the operator. */
  readonly server?: FakeApiServer;
  /**
   * By name, in the namespace `default`: put into use without a reconciler of Networks; a Network resource that is ready is made for each.
   */
  readonly networks?: Readonly<Record<string, TestNetwork>>;
  /** Namespaces that the operator looks after; default: all. */
  readonly namespaces?: readonly string[];
  readonly resyncMs?: number;
  readonly now?: () => Date;
  /** Whether the operator may change anything at this very moment; default: always. */
  readonly mayAct?: () => boolean;
  /** Waits end after this time, milliseconds; default 20,000. */
  readonly patienceMs?: number;
}

type Spec = Readonly<Record<string, unknown>>;

interface Read extends KubeObject {
  readonly spec: Spec;
  readonly status: Spec & { readonly conditions?: readonly Condition[]; readonly observedGeneration?: number };
}

export interface TestOperator {
  readonly server: FakeApiServer;
  readonly operator: Operator;
  /** A user's client: another field manager than the operator. */
  readonly user: HttpKubeClient;
  /** Everything that was logged, as text. */
  readonly logged: () => string;
  /** Of our kinds: applies the smallest manifest with `spec` laid over it; answers it as stored. */
  apply(kind: string, name: string, spec?: Spec, metadata?: Spec): Promise<Read>;
  /** As it is now. */
  read(kind: string, name: string, namespace?: string): Read | undefined;
  annotate(kind: string, name: string, annotations: Readonly<Record<string, string | null>>): Promise<void>;
  delete(kind: string, name: string): Promise<boolean>;
  /** Resolves with the first state of the resource that fits. @throws with the last state when it takes too long */
  until(kind: string, name: string, fits: (resource: Read) => boolean): Promise<Read>;
  /** Until its condition Ready is so; with the reason, if one is given. */
  ready(kind: string, name: string, status?: Condition["status"], reason?: string): Promise<Read>;
  gone(kind: string, name: string): Promise<void>;
  /** Reasons of the events about it, in the order in which they were written. */
  events(kind: string, name: string): string[];
  /** Until nothing is due and nothing was written for a moment. */
  settled(): Promise<void>;
  /** Writes (Kubernetes, not counting events and Leases) while everything is looked at once more. */
  writesOfAnotherLook(): Promise<SeenRequest[]>;
  /** Ends the operator and leaves the API server. */
  stop(): Promise<void>;
  /** Ends all. */
  close(): Promise<void>;
}

const PATIENCE_MS = 20_000;
/** Between two looks at what is waited for, milliseconds. */
const LOOK_MS = 10;
/** Looks without anything new after which the operator is at rest. Not a time: in one that the process does not get, nothing that came is read. */
const QUIET_LOOKS = 20;

/** The kind of our resources by its name. */
export function kindNamed(kind: string): ResourceKind {
  const found = KINDS.find((each) => each.kind === kind);
  if (found === undefined) throw new TypeError(`no kind ${kind}`);
  return found;
}

/** A fake API server with our CRDs and the namespaces that tests use. */
export async function startApiServer(): Promise<FakeApiServer> {
  const server = await FakeApiServer.start();
  for (const kind of DEFINITIONS) server.put(KUBE.CustomResourceDefinition, customResourceDefinition(kind));
  for (const name of ["kube-system", "default"]) {
    server.put(KUBE.Namespace, { apiVersion: "v1", kind: "Namespace", metadata: { name } });
  }
  return server;
}

export async function startOperator(o: StartOptions = {}): Promise<TestOperator> {
  const server = o.server ?? (await startApiServer());
  const lines: string[] = [];
  const log = createLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } });
  const args = ["run", "--no-leader-election", "--pod-name", "operator-0"];
  const command = parseCommand(args, { SALLYPORT_NAMESPACES: o.namespaces?.join(",") }, "0.0.0-test");
  if (command.name !== "run") throw new TypeError("the command line of the test");
  const settings = { ...command.settings, resyncMs: o.resyncMs ?? 600_000 };
  const metrics = new Metrics();
  const client = new HttpKubeClient(clusterAt(server.url), { kinds: KINDS, metrics });
  const user = new HttpKubeClient(clusterAt(server.url), { kinds: KINDS, manager: "kubectl" });
  const { now, mayAct } = o;
  const withoutNetworks = (): KindReconciler[] => controllers(settings).filter(({ kind }) => kind.kind !== "Network");
  const reconcilers = o.reconcilers ?? (o.networks === undefined ? undefined : withoutNetworks());
  const operator = new Operator({
    client,
    settings,
    namespace: "default",
    metrics,
    log,
    ...(reconcilers === undefined ? {} : { reconcilers }),
    ...(now === undefined ? {} : { now }),
    ...(mayAct === undefined ? {} : { mayAct }),
  });
  for (const [name, network] of Object.entries(o.networks ?? {})) putNetwork(server, operator, log, name, network);
  const stopping = new AbortController();
  const running = operator.run(stopping.signal);
  running.catch(() => {});
  const patienceMs = o.patienceMs ?? PATIENCE_MS;

  const refTo = (kind: string, name: string, namespace = "default"): ObjectRef => ({
    kind: kindNamed(kind),
    namespace,
    name,
  });
  const read = (kind: string, name: string, namespace?: string) => server.read<Read>(refTo(kind, name, namespace));
  const waitFor = async <T>(what: string, look: () => T | undefined): Promise<T> => {
    const end = performance.now() + patienceMs;
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      if (performance.now() > end) throw new Error(`waited without success for ${what}\n${lines.slice(-15).join("")}`);
      await delay(LOOK_MS);
    }
  };
  const settled = async (): Promise<void> => {
    let quiet = 0;
    let seen = -1;
    await waitFor("the operator to come to rest", () => {
      const version = server.requests.length;
      quiet = operator.loops.pending > 0 || version !== seen ? 0 : quiet + 1;
      seen = version;
      return quiet > QUIET_LOOKS ? true : undefined;
    });
  };
  const until: TestOperator["until"] = async (kind, name, fits) => {
    try {
      return await waitFor(`${kind} ${name}`, () => {
        const resource = read(kind, name);
        return resource !== undefined && fits(resource) ? resource : undefined;
      });
    } catch (error) {
      throw new Error(`${(error as Error).message}\n${JSON.stringify(read(kind, name), undefined, 1)}`);
    }
  };
  const stop = async (): Promise<void> => {
    stopping.abort(new Error("the test ends"));
    await running;
    await client.close();
  };

  return {
    server,
    operator,
    user,
    logged: () => lines.join(""),
    read,
    until,
    settled,
    stop,
    async apply(kind, name, spec = {}, metadata = {}) {
      const manifest = sample(kind, spec, name);
      const object = { ...manifest, metadata: { ...manifest.metadata, ...metadata } };
      return await user.apply<Read>(object as unknown as KubeObject);
    },
    async annotate(kind, name, annotations) {
      await user.patch(refTo(kind, name), { metadata: { annotations } });
    },
    delete: (kind, name) => user.delete(refTo(kind, name)),
    ready: (kind, name, status = "True", reason) =>
      until(kind, name, ({ metadata, status: { conditions, observedGeneration } }) => {
        const ready = conditionOf(conditions, "Ready");
        const isCurrent = observedGeneration === metadata.generation;
        return isCurrent && ready?.status === status && (reason === undefined || ready.reason === reason);
      }),
    async gone(kind, name) {
      await waitFor(`${kind} ${name} to go`, () => (read(kind, name) === undefined ? true : undefined)).catch(
        (error: Error) => {
          throw new Error(`${error.message}\n${JSON.stringify(read(kind, name), undefined, 1)}`);
        },
      );
    },
    events: (kind, name) =>
      server.requests.flatMap(({ method, path, body }) => {
        const { regarding, reason } = (body ?? {}) as { regarding?: { kind: string; name: string }; reason?: string };
        const isIt =
          method === "POST" && path.includes("/events") && regarding?.kind === kind && regarding.name === name;
        return isIt && reason !== undefined ? [reason] : [];
      }),
    async writesOfAnotherLook() {
      await settled();
      const from = server.requests.length;
      operator.loops.resync();
      await settled();
      return server.requests
        .slice(from)
        .filter(({ method, path }) => method !== "GET" && !/\/(events|leases)/.test(path));
    },
    async close() {
      await stop();
      await user.close();
      if (o.server === undefined) await server.close();
    },
  };
}

type Log = ReturnType<typeof createLogger>;

function putNetwork(server: FakeApiServer, operator: Operator, log: Log, name: string, network: TestNetwork): void {
  const { endpoint, ca, username = "admin", password = "admin", settings } = network;
  const ref = { namespace: "default", name };
  if (server.read({ kind: kindNamed("Network"), ...ref }) === undefined) {
    const time = "2026-01-01T00:00:00Z";
    const ready = { type: "Ready", status: "True", reason: "Connected", message: "in use", lastTransitionTime: time };
    server.put(kindNamed("Network"), {
      ...sample("Network", {}, name),
      apiVersion: API_VERSION,
      status: { observedGeneration: 1, conditions: [ready] },
    });
  }
  operator.networks.set(
    ref,
    { roleScope: "Global", allowAdminIdentities: false, ...settings },
    {
      name: keyOf({ metadata: ref }),
      endpoints: [endpoint],
      ca,
      credentials: { method: "password", username, password },
      requestTimeoutMs: 20_000,
      maxRequestsPerSecond: 1_000,
      log,
    },
  );
}
