import { randomBytes } from "node:crypto";
import { ROUTES } from "@sallyport/api/client";
import { errorText, pause } from "@sallyport/async";
import { parseDuration } from "@sallyport/config-file";
import { GROUP, KINDS as RESOURCES } from "@sallyport/resources";
import { type Logger, listenAdvice } from "@sallyport/wire";
import { NetworkClients } from "../controller-client/network-clients.ts";
import { controllers, type ReconcilerDependencies } from "../kinds/reconcilers.ts";
import type { KubeClient } from "../kube/client/client.ts";
import { KubeError } from "../kube/client/errors.ts";
import { Elector, leaderCheck, leaderClient } from "../kube/election/elector.ts";
import { EventRecorder } from "../kube/events/recorder.ts";
import { HealthServer, stuckCheck, syncedCheck } from "../kube/health.ts";
import { KINDS, type OwnerReference } from "../kube/kinds.ts";
import type { Metrics } from "../kube/metrics.ts";
import type { KindReconciler } from "../loop/kind-reconciler.ts";
import { Loops } from "../loop/loops.ts";
import { problemOfCrds } from "./check.ts";
import { type OperatorSettings, SettingsError } from "./settings.ts";

const RETRY_MS = 5_000;
const HOUR_MS = 3_600_000;

interface OperatorOptions {
  readonly client: KubeClient;
  /** For the Lease, which must not wait behind the work; default: `client`. */
  readonly leaseClient?: KubeClient;
  /** With which the Lease goes. */
  readonly leaseOwner?: OwnerReference | undefined;
  readonly settings: OperatorSettings;
  /** The operator's own namespace. */
  readonly namespace: string;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** Default: all that {@link controllers} has. */
  readonly reconcilers?: readonly KindReconciler[];
  readonly now?: () => Date;
  /** Whether this process may change anything at this very moment; default: as long as its Lease says so. */
  readonly mayAct?: () => boolean;
}

/** The program without its command line: watches, election, work, probes. */
export class Operator {
  readonly metrics: Metrics;
  readonly networks: NetworkClients;
  readonly loops: Loops;
  readonly #o: OperatorOptions;
  readonly #recorder: EventRecorder;
  #cluster = "";
  #crdProblem: string | undefined = "the CustomResourceDefinitions are not looked at yet";
  #elector: Elector | undefined;

  constructor(o: OperatorOptions) {
    const { settings, log, metrics } = o;
    const check = leaderCheck(o.mayAct ?? (() => this.#mayAct()));
    const client = leaderClient(o.client, check);
    this.#o = o;
    this.metrics = metrics;
    this.#recorder = new EventRecorder({
      client: o.client,
      controller: `${GROUP}/operator`,
      instance: settings.podName,
      log,
      metrics,
    });
    this.networks = new NetworkClients({
      mayAct: check,
      onChange: (network) => this.loops.wakeNetwork(network),
      onRecovered: (network) => this.loops.wakeNetwork(network, { unsettledOnly: true }),
      onRequest: (operation, status) => count(metrics, operation, status),
    });
    this.loops = new Loops({
      client,
      networks: this.networks,
      mayAct: check,
      recorder: this.#recorder,
      metrics,
      log,
      cluster: () => this.#cluster,
      namespaces: settings.namespaces,
      now: o.now ?? (() => new Date()),
      resyncMs: settings.resyncMs,
      reconcilers: o.reconcilers ?? controllers(settings, dependenciesOf({ ...o, client })),
      kinds: RESOURCES,
    });
  }

  /** Serves the probes. Close it. */
  async serveHealth(): Promise<HealthServer> {
    const { reflectors } = this.loops.stores;
    const port = this.#o.settings.healthPort;
    return await HealthServer.listen({
      port,
      live: { watches: stuckCheck(reflectors), lease: () => this.#elector?.problem },
      ready: { crds: () => this.#crdProblem, watches: syncedCheck(reflectors) },
      metrics: () => this.metrics.text(),
    }).catch((cause: unknown) => {
      const text = `cannot listen on port ${port} (--health-port or SALLYPORT_HEALTH_PORT): ${listenAdvice(cause)}`;
      throw new SettingsError(text, { cause });
    });
  }

  /**
   * Runs until the signal ends it; then what is under way is finished, the Lease given up and every session ended.
   * @throws LeadershipLostError when another process leads: this one has to end
   */
  async run(signal: AbortSignal): Promise<void> {
    const { settings, client, leaseOwner: owner, namespace, log, metrics } = this.#o;
    const watching = new AbortController();
    const stopWatching = (): void => watching.abort(signal.reason);
    try {
      if (!(await this.#prepare(signal))) return;
      const watches = this.loops.watch(watching.signal);
      watches.catch((err: unknown) => log.error({ err }, "the watches ended"));
      try {
        if (!settings.electsLeader) await this.loops.work(signal);
        else {
          this.#elector = new Elector({
            client: this.#o.leaseClient ?? client,
            namespace,
            name: settings.leaseName,
            identity: `${settings.podName}_${randomBytes(4).toString("hex")}`,
            owner,
            log,
            onChange: (isLeader) => metrics.leading(settings.leaseName, isLeader),
          });
          metrics.leading(settings.leaseName, false);
          await this.#elector.run((working) => this.loops.work(working), signal);
        }
      } finally {
        stopWatching();
        await watches;
      }
    } finally {
      await this.#recorder.close();
      await this.networks.close();
    }
  }

  #mayAct(): boolean {
    return this.#o.settings.electsLeader ? this.#elector?.mayAct === true : true;
  }

  /** Waits until there is something to watch. False when the signal ended that. */
  async #prepare(signal: AbortSignal): Promise<boolean> {
    const { log } = this.#o;
    let said: string | undefined;
    while (!signal.aborted) {
      const problem = await this.#findProblem(signal);
      this.#crdProblem = problem;
      if (problem === undefined) return true;
      if (problem !== said) log.error({ problem }, "cannot begin; trying again");
      said = problem;
      await pause(RETRY_MS, signal);
    }
    return false;
  }

  async #findProblem(signal: AbortSignal): Promise<string | undefined> {
    const { client, log } = this.#o;
    try {
      this.#cluster ||= await this.#clusterId(signal);
      const found = await problemOfCrds(client, RESOURCES, signal);
      if (found === "forbidden")
        log.info({}, "the operator may not read CustomResourceDefinitions: their version is not checked");
      else if (found !== undefined) return found.problem;
      return undefined;
    } catch (error) {
      return signal.aborted ? "the operator stops" : errorText(error);
    }
  }

  async #clusterId(signal: AbortSignal): Promise<string> {
    const { client, settings } = this.#o;
    if (settings.clusterId !== undefined) return settings.clusterId;
    try {
      const system = await client.get({ kind: KINDS.Namespace, name: "kube-system" }, { signal });
      if (system?.metadata.uid !== undefined) return system.metadata.uid;
    } catch (error) {
      if (!(error instanceof KubeError) || !error.isForbidden) throw error;
      throw new SettingsError(
        `the operator may not read the namespace kube-system, whose UID marks its entities: grant that, or set SALLYPORT_CLUSTER_ID (${error.message})`,
      );
    }
    throw new SettingsError(
      "there is no namespace kube-system, whose UID marks the operator's entities: set SALLYPORT_CLUSTER_ID",
    );
  }
}

function dependenciesOf({ client, settings: { serviceAccount }, namespace }: OperatorOptions): ReconcilerDependencies {
  if (serviceAccount === undefined) return {};
  const account = { namespace, name: serviceAccount };
  return {
    serviceAccountToken: (audience, lifetime) =>
      client.requestToken(account, {
        audience,
        lifetimeSeconds: Math.round((parseDuration(lifetime) ?? HOUR_MS) / 1000),
      }),
  };
}

function count(metrics: Metrics, operation: string, status: number): void {
  const { method, path } = ROUTES.management.routes[operation] ?? { method: "POST", path: `/${operation}` };
  metrics.networkAnswered(method, path.split("/")[1] ?? "", status === 0 ? "<error>" : String(status));
}
