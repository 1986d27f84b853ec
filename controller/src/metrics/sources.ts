import { sql } from "kysely";
import type { Model } from "../model/model.ts";
import { summarize } from "../model/summary.ts";
import type { ChangeLog } from "../store/changes/change-log.ts";
import type { Store } from "../store/database.ts";
import type { ControllerMetrics } from "./metrics.ts";

/** What figures are read from. */
interface MetricSources {
  /** Entities by collection; asked at most once in ten seconds. */
  readonly counts: () => Promise<Readonly<Record<string, number>>>;
  readonly pool: { readonly totalCount: number; readonly idleCount: number; readonly waitingCount: number };
  readonly databaseSize: () => Promise<number>;
  readonly outage: { readonly since: Date | undefined };
  readonly clock: { readonly aheadMs: number };
  readonly changes: Pick<ChangeLog, "subscribe">;
  readonly policy: { onUpdate?: (seconds: number) => void };
  readonly fabric: {
    onlineRouterIds(): readonly string[];
    circuits(): readonly unknown[];
    links(): readonly unknown[];
    onEvent(listener: (event: FabricHappening) => void): unknown;
  };
  readonly connections: () => number;
}

/** The parts of the fabric's events that are counted. */
export interface FabricHappening {
  readonly kind: string;
  readonly timespanMs?: number;
  readonly cause?: string;
}

const FRESH_MS = 10_000;

/** Ties the figures to the parts of a controller. @returns the way to untie them */
export function connectMetrics(metrics: ControllerMetrics, sources: MetricSources): () => void {
  const { pool, fabric } = sources;
  const counts = remembered(sources.counts);
  const size = remembered(sources.databaseSize);
  metrics.gauge("sallyport_entities", "Entities by collection", counts, "collection");
  metrics.gauge("sallyport_api_sessions", "API sessions", async () => (await counts()).apiSessions ?? 0);
  metrics.gauge(
    "sallyport_sessions",
    "Permissions in use to dial or bind a service",
    async () => (await counts()).sessions ?? 0,
  );
  metrics.gauge(
    "sallyport_routers_connected",
    "Routers whose control channel is up",
    () => fabric.onlineRouterIds().length,
  );
  metrics.gauge("sallyport_links", "Links between routers", () => fabric.links().length);
  metrics.gauge("sallyport_circuits", "Circuits that are up", () => fabric.circuits().length);
  metrics.gauge("sallyport_http_connections", "Open connections to the HTTP APIs", sources.connections);
  metrics.gauge("sallyport_database_up", "1 while the database can be used", () =>
    sources.outage.since === undefined ? 1 : 0,
  );
  const ahead = "Seconds by which the clock of this machine is ahead of that of the database; negative: behind";
  metrics.gauge("sallyport_clock_ahead_seconds", ahead, () => sources.clock.aheadMs / 1_000);
  metrics.gauge("sallyport_database_size_bytes", "Size of the database on disk", size);
  metrics.gauge(
    "sallyport_database_connections",
    "Connections of the pool by state; waiting: requests without one",
    () => ({ used: pool.totalCount - pool.idleCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    "state",
  );
  sources.policy.onUpdate = (seconds) => metrics.policyUpdated(seconds);
  fabric.onEvent((event) => {
    if (event.kind === "circuit-created") metrics.circuitCreated((event.timespanMs ?? 0) / 1_000);
    else if (event.kind === "circuit-failed") metrics.circuitFailed(event.cause ?? "UNKNOWN");
    else if (event.kind === "circuit-rerouted") metrics.circuitRerouted();
  });
  return sources.changes.subscribe({
    name: "metrics",
    onChanges: (rows) => {
      for (const { kind, op } of rows) metrics.changed(kind, op);
    },
    onReset: () => undefined,
  });
}

/** Asks at most once in ten seconds, however often figures are read. */
function remembered<T>(read: () => Promise<T>): () => Promise<T> {
  let last: Promise<T> | undefined;
  let at = Number.NEGATIVE_INFINITY;
  return () => {
    const now = performance.now();
    if (last === undefined || now - at >= FRESH_MS) {
      at = now;
      last = read();
      last.catch(() => {
        last = undefined;
      });
    }
    return last;
  };
}

/** Ties the figures to a controller's parts. @returns the way to untie them */
export function measureController(o: {
  readonly metrics: ControllerMetrics;
  readonly store: Store;
  readonly model: Model;
  readonly fabric: MetricSources["fabric"];
  readonly http: { readonly connections: number };
  readonly productVersion: string;
}): () => void {
  const { metrics, store, model, fabric, http } = o;
  metrics.collectProcess(o.productVersion);
  return connectMetrics(metrics, {
    counts: () => summarize(store.db),
    pool: store.pool,
    databaseSize: async () => {
      const { rows } = await sql<{ size: string }>`SELECT pg_database_size(current_database()) AS size`.execute(
        store.db,
      );
      return Number(rows[0]?.size);
    },
    outage: store.outage,
    clock: store.clock,
    changes: store.changes,
    policy: model.policy,
    fabric,
    connections: () => http.connections,
  });
}
