/** The figures of a controller for Prometheus; their names and meaning are listed in docs/controller.md, "Metrics". */
import { BUILD_INFO, buildInfoLabels } from "@sallyport/program/build-info";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** One request that was answered. */
export interface AnsweredRequest {
  /** `client`, `management`, `fabric`; `none` for what is no operation. */
  readonly api: string;
  /** Operation id; `none` for what is none. */
  readonly operation: string;
  readonly status: number;
  readonly seconds: number;
}

const FAST = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** All counters and histograms, in one registry. Gauges that are read at each scrape are added by {@link ControllerMetrics.gauge}. */
export class ControllerMetrics {
  readonly registry = new Registry();
  readonly #requests = this.#counter(
    "sallyport_http_requests_total",
    "Answered requests",
    "api",
    "operation",
    "status",
  );
  readonly #durations = this.#histogram(
    "sallyport_http_request_duration_seconds",
    "From the end of the headers to the end of the answer",
    "api",
  );
  readonly #queries = this.#histogram(
    "sallyport_database_query_duration_seconds",
    "Statements as the controller waits for them",
    "outcome",
  );
  readonly #changes = this.#counter(
    "sallyport_changes_total",
    "Rows of the change log that this controller has read",
    "kind",
    "op",
  );
  readonly #policyWork = this.#histogram(
    "sallyport_policy_update_duration_seconds",
    "Bringing the policies in memory up to date with a batch of changes",
  );
  readonly #circuits = this.#counter("sallyport_circuits_created_total", "Circuits that came up");
  readonly #circuitSetup = this.#histogram(
    "sallyport_circuit_setup_duration_seconds",
    "From the request for a circuit until it was up",
  );
  readonly #circuitFailures = this.#counter(
    "sallyport_circuit_failures_total",
    "Circuits that could not be made",
    "cause",
  );
  readonly #reroutes = this.#counter("sallyport_circuit_reroutes_total", "Circuits that got another path");
  readonly #sessionRows = this.#counter(
    "sallyport_session_rows_read_total",
    "Rows of API sessions that requests had to read from the database",
  );
  readonly #swept = this.#counter(
    "sallyport_upkeep_removed_total",
    "What upkeep removed because its time was over",
    "what",
  );

  /** Adds figures of the process: version, CPU, memory, event loop, garbage collection. Once per process. */
  collectProcess(version: string): void {
    const labels = buildInfoLabels("controller", version);
    new Gauge({ ...BUILD_INFO, labelNames: Object.keys(labels), registers: [this.registry] }).set(labels, 1);
    // A look at the delay of the event loop each 100 ms: one each 10 ms takes more of a processor than all else at rest.
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: 100 });
  }

  answered({ api, operation, status, seconds }: AnsweredRequest): void {
    this.#requests.inc({ api, operation, status: String(status) });
    this.#durations.observe({ api }, seconds);
  }

  queried(seconds: number, isOk: boolean): void {
    this.#queries.observe({ outcome: isOk ? "ok" : "error" }, seconds);
  }

  changed(kind: string, op: string): void {
    this.#changes.inc({ kind, op });
  }

  policyUpdated(seconds: number): void {
    this.#policyWork.observe(seconds);
  }

  circuitCreated(seconds: number): void {
    this.#circuits.inc();
    this.#circuitSetup.observe(seconds);
  }

  circuitFailed(cause: string): void {
    this.#circuitFailures.inc({ cause });
  }

  circuitRerouted(): void {
    this.#reroutes.inc();
  }

  sessionRowRead(): void {
    this.#sessionRows.inc();
  }

  swept(what: string, count: number): void {
    this.#swept.inc({ what }, count);
  }

  /** A figure that is read at each scrape. `read` answers a number, or numbers by the value of the label; a failure leaves the figure out. */
  gauge(
    name: string,
    help: string,
    read: () => Promise<number | Readonly<Record<string, number>>> | number | Readonly<Record<string, number>>,
    label = "what",
  ): void {
    const gauge: Gauge<string> = new Gauge({
      name,
      help,
      labelNames: [label],
      registers: [this.registry],
      async collect() {
        gauge.reset();
        try {
          const value = await read();
          if (typeof value === "number") gauge.set(value);
          else for (const [key, number] of Object.entries(value)) gauge.set({ [label]: key }, number);
        } catch {
          gauge.reset();
        }
      },
    });
  }

  #counter<Label extends string>(name: string, help: string, ...labelNames: Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #histogram<Label extends string>(name: string, help: string, ...labelNames: Label[]): Histogram<Label> {
    return new Histogram({ name, help, labelNames, buckets: FAST, registers: [this.registry] });
  }
}
