import { BUILD_INFO, buildInfoLabels } from "@sallyport/program/build-info";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { TransportMetrics } from "./client/transport.ts";
import { DROP_REASONS, type DropReason, type EventMetrics } from "./events/event-writes.ts";
import type { ResourceKind } from "./kinds.ts";
import type { QueueMetrics, WorkQueue } from "./queue/work-queue.ts";
import type { WorkerMetrics } from "./queue/worker.ts";
import type { Reflector, ReflectorMetrics } from "./watch/reflector.ts";

/** 1 ms .. 1,000 s: what dashboards of other controllers use. */
const DURATIONS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1000];

/** A resource, as label values. */
interface Labelled {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
}

/** The figures of an operator under the names that dashboards of controllers look for (docs/operator/machinery.md, "Metrics"). */
export class Metrics implements TransportMetrics, ReflectorMetrics, EventMetrics {
  readonly registry = new Registry();
  readonly #queues = new Map<string, WorkQueue<string>>();
  readonly #reflectors = new Set<Pick<Reflector<never>, "kind" | "lastEventAt">>();
  readonly #adds = this.#counter("workqueue_adds_total", "Keys that were added", ["name"]);
  readonly #retries = this.#counter("workqueue_retries_total", "Keys that were added again after a failure", ["name"]);
  readonly #waits = this.#histogram("workqueue_queue_duration_seconds", "How long keys waited to be taken", ["name"]);
  readonly #works = this.#histogram("workqueue_work_duration_seconds", "How long work on a key took", ["name"]);
  readonly #reconciles = this.#counter("controller_runtime_reconcile_total", "Reconciles by their end", [
    "controller",
    "result",
  ]);
  readonly #errors = this.#counter("controller_runtime_reconcile_errors_total", "Reconciles that failed", [
    "controller",
  ]);
  readonly #terminal = this.#counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Reconciles that failed and are not repeated",
    ["controller"],
  );
  readonly #panics = this.#counter(
    "controller_runtime_reconcile_panics_total",
    "Reconciles that failed by a fault of the program",
    ["controller"],
  );
  readonly #timeouts = this.#counter("controller_runtime_reconcile_timeouts_total", "Reconciles that took too long", [
    "controller",
  ]);
  readonly #times = this.#histogram("controller_runtime_reconcile_time_seconds", "How long a reconcile took", [
    "controller",
  ]);
  readonly #concurrency = this.#gauge(
    "controller_runtime_max_concurrent_reconciles",
    "Reconciles at the same time, at most",
    ["controller"],
  );
  readonly #active = this.#gauge("controller_runtime_active_workers", "Reconciles under way", ["controller"]);
  readonly #requests = this.#counter("rest_client_requests_total", "Answers of the API server", [
    "code",
    "method",
    "host",
  ]);
  readonly #leading = this.#gauge("leader_election_master_status", "1 while this process leads", ["name"]);
  readonly #lists = this.#counter("reflector_lists_total", "Lists that a reflector read", ["kind"]);
  readonly #watches = this.#counter("reflector_watches_total", "Watches that a reflector began", ["kind"]);
  readonly #watchFailures = this.#counter("reflector_failures_total", "Lists and watches that failed", [
    "kind",
    "reason",
  ]);
  readonly #network = this.#counter("sallyport_operator_api_requests_total", "Answers of controllers of networks", [
    "method",
    "resource",
    "code",
  ]);
  readonly #dropped = this.#counter("sallyport_operator_events_dropped_total", "Events that were dropped", ["reason"]);
  readonly #ready = this.#gauge("sallyport_operator_resource_ready", "1 while the resource is ready", [
    "kind",
    "namespace",
    "name",
  ]);
  readonly #expiry = this.#gauge(
    "sallyport_operator_certificate_expiration_timestamp_seconds",
    "When the certificate ends",
    ["kind", "namespace", "name"],
  );
  readonly #renewal = this.#gauge(
    "sallyport_operator_certificate_renewal_timestamp_seconds",
    "When the certificate is to be renewed",
    ["kind", "namespace", "name"],
  );

  constructor() {
    for (const reason of DROP_REASONS) this.#dropped.inc({ reason }, 0);
    this.#readGauge("workqueue_depth", "Keys that wait", "name", () => this.#ofQueues((queue) => queue.depth));
    this.#readGauge(
      "workqueue_unfinished_work_seconds",
      "How long the work under way has taken, summed up",
      "name",
      () => this.#ofQueues((queue) => ages(queue).reduce((sum, age) => sum + age, 0)),
    );
    this.#readGauge(
      "workqueue_longest_running_processor_seconds",
      "How long the longest work under way has taken",
      "name",
      () => this.#ofQueues((queue) => Math.max(0, ...ages(queue))),
    );
    this.#readGauge("reflector_last_event_timestamp_seconds", "When the API server was last heard", "kind", () =>
      [...this.#reflectors].map(({ kind, lastEventAt }) => [kind.kind, lastEventAt / 1000]),
    );
  }

  /** Adds figures of the process: version, CPU, memory, event loop, garbage collection. Once per process. */
  collectProcess(version: string): void {
    const labels = buildInfoLabels("operator", version);
    new Gauge({ ...BUILD_INFO, labelNames: Object.keys(labels), registers: [this.registry] }).set(labels, 1);
    // A look at the delay of the event loop each 100 ms: one each 10 ms takes more of a processor than all else at rest.
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: 100 });
  }

  /** In the text format of Prometheus. */
  async text(): Promise<string> {
    return await this.registry.metrics();
  }

  /** What a queue of this name counts with; {@link watchQueue} makes its depth seen. */
  queue(name: string): QueueMetrics {
    this.#adds.inc({ name }, 0);
    this.#retries.inc({ name }, 0);
    return {
      added: () => this.#adds.inc({ name }),
      retried: () => this.#retries.inc({ name }),
      taken: (seconds) => this.#waits.observe({ name }, seconds),
      done: (seconds) => this.#works.observe({ name }, seconds),
    };
  }

  watchQueue(name: string, queue: WorkQueue<string>): void {
    this.#queues.set(name, queue);
  }

  watchReflector(reflector: Pick<Reflector<never>, "kind" | "lastEventAt">): void {
    this.#reflectors.add(reflector);
  }

  worker(controller: string, concurrency: number): WorkerMetrics {
    this.#concurrency.set({ controller }, concurrency);
    this.#active.set({ controller }, 0);
    for (const counter of [this.#errors, this.#terminal, this.#panics, this.#timeouts]) counter.inc({ controller }, 0);
    for (const result of ["success", "error", "requeue", "requeue_after"])
      this.#reconciles.inc({ controller, result }, 0);
    return {
      started: () => this.#active.inc({ controller }),
      finished: (end, seconds, error) => {
        this.#active.dec({ controller });
        this.#times.observe({ controller }, seconds);
        const isGood = end === "success" || end === "requeue_after";
        this.#reconciles.inc({ controller, result: isGood ? end : "error" });
        if (isGood) return;
        this.#errors.inc({ controller });
        if (end === "timeout") this.#timeouts.inc({ controller });
        if (error instanceof TypeError || error instanceof ReferenceError) this.#panics.inc({ controller });
      },
    };
  }

  answered(method: string, code: string, host: string): void {
    this.#requests.inc({ code, method, host });
  }

  listed({ kind }: ResourceKind): void {
    this.#lists.inc({ kind });
  }

  watched({ kind }: ResourceKind): void {
    this.#watches.inc({ kind });
  }

  failed({ kind }: ResourceKind, reason: string): void {
    this.#watchFailures.inc({ kind, reason });
  }

  leading(name: string, isLeader: boolean): void {
    this.#leading.set({ name }, isLeader ? 1 : 0);
  }

  /** A controller of a network answered; `code` is the HTTP status or `<error>`, `resource` a collection: `identities`. */
  networkAnswered(method: string, resource: string, code: string): void {
    this.#network.inc({ method, resource, code });
  }

  /** An event about an object was not told. */
  dropped(reason: DropReason): void {
    this.#dropped.inc({ reason });
  }

  resourceReady({ kind, namespace, name }: Labelled, isReady: boolean): void {
    this.#ready.set({ kind, namespace, name }, isReady ? 1 : 0);
  }

  certificate({ kind, namespace, name }: Labelled, o: { readonly expires: Date; readonly renews?: Date }): void {
    this.#expiry.set({ kind, namespace, name }, o.expires.getTime() / 1000);
    if (o.renews !== undefined) this.#renewal.set({ kind, namespace, name }, o.renews.getTime() / 1000);
  }

  /** The resource is gone: nothing is said about it any more. */
  forgetResource({ kind, namespace, name }: Labelled): void {
    for (const gauge of [this.#ready, this.#expiry, this.#renewal]) gauge.remove({ kind, namespace, name });
  }

  #ofQueues(read: (queue: WorkQueue<string>) => number): [string, number][] {
    return [...this.#queues].map(([name, queue]) => [name, read(queue)]);
  }

  #counter<L extends string>(name: string, help: string, labelNames: L[]): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #gauge<L extends string>(name: string, help: string, labelNames: L[]): Gauge<L> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }

  #histogram<L extends string>(name: string, help: string, labelNames: L[]): Histogram<L> {
    return new Histogram({ name, help, labelNames, buckets: DURATIONS, registers: [this.registry] });
  }

  /** A gauge that is read when metrics are scraped. */
  #readGauge(name: string, help: string, label: string, read: () => [string, number][]): void {
    const gauge: Gauge<string> = new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [this.registry],
      collect() {
        gauge.reset();
        for (const [value, number] of read()) gauge.set({ [label]: value }, number);
      },
    });
  }
}

function ages({ working }: WorkQueue<string>): number[] {
  const now = performance.now();
  return [...working.values()].map((since) => (now - since) / 1000);
}
