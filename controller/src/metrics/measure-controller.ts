import { sql } from "kysely";
import type { Model } from "../model/model.ts";
import { summarize } from "../model/summary.ts";
import type { Store } from "../store/database.ts";
import type { Metrics } from "./metrics.ts";
import { connectMetrics, type MetricSources } from "./sources.ts";

/** Ties the figures to a controller's parts. @returns the way to untie them */
export function measureController(o: {
  readonly metrics: Metrics;
  readonly store: Store;
  readonly model: Model;
  readonly fabric: MetricSources["fabric"];
  readonly http: { readonly connections: number };
}): () => void {
  const { metrics, store, model, fabric, http } = o;
  metrics.collectProcess();
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
    changes: store.changes,
    policy: model.policy,
    fabric,
    connections: () => http.connections,
  });
}
