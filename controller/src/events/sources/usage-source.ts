import type { metricsPb } from "@sallyport/wire";
import type { EventSink } from "../types/event.ts";

/** Circuits of one report that become events: what a router can make the controller do has a bound. */
const MAX_CIRCUITS = 50_000;

/** The usage counters of a router's report as events of both versions; each subscriber keeps the one it asked for. */
export function emitUsage(sink: EventSink, metrics: metricsPb.MetricsMessage): void {
  let left = MAX_CIRCUITS;
  for (const interval of metrics.usageCounters) {
    for (const [circuitId, bucket] of Object.entries(interval.buckets)) {
      if (left-- <= 0) return;
      const common = {
        namespace: "usage",
        source_id: metrics.sourceId,
        circuit_id: circuitId,
        interval_start_utc: Number(interval.intervalStartUtc),
        interval_length: Number(interval.intervalLength),
        tags: bucket.tags,
      } as const;
      const usage = Object.fromEntries(Object.entries(bucket.values).map(([name, bytes]) => [name, Number(bytes)]));
      sink.emit({ ...common, version: 3, usage });
      for (const [name, bytes] of Object.entries(usage)) {
        sink.emit({ ...common, version: 2, event_type: `usage.${name}`, usage: bytes });
      }
    }
  }
}
