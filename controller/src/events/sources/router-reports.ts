import { randomUUID } from "node:crypto";
import type { metricsPb } from "@sallyport/wire";
import type { EventSink, MetricsEvent } from "../event.ts";

/** The ends of a link: metrics of links are tagged with them. */
export interface LinkEnds {
  readonly id: string;
  readonly source: string;
  readonly destination: string;
}

/** Metrics of one report that become events: what a router can make the controller do has a bound. */
const MAX_METRICS = 20_000;

type Values = MetricsEvent["metrics"];
type MetricSample = readonly [type: MetricsEvent["metric_type"], name: string, values: Values];

/** A router's report as one event per metric. */
export function emitMetrics(sink: EventSink, report: metricsPb.MetricsMessage, links: readonly LinkEnds[]): void {
  const ends = new Map(links.map((link) => [link.id, link]));
  const sourceEventId = randomUUID();
  const timestamp = timeOf(report);
  let left = MAX_METRICS;
  for (const [type, name, metrics] of samples(report)) {
    if (left-- <= 0) return;
    const { metric, entityId } = nameParts(name);
    const link = metric.startsWith("link.") && entityId !== undefined ? ends.get(entityId) : undefined;
    const linkTags = link === undefined ? {} : { sourceRouterId: link.source, targetRouterId: link.destination };
    const tags = { ...report.tags, ...linkTags };
    sink.emit({
      namespace: "metrics",
      ...(timestamp && { timestamp }),
      version: 3,
      metric_type: type,
      source_id: report.sourceId,
      ...(entityId !== undefined && { source_entity_id: entityId }),
      metric,
      metrics,
      ...(Object.keys(tags).length === 0 ? {} : { tags }),
      source_event_id: sourceEventId,
    });
  }
}

function* samples(report: metricsPb.MetricsMessage): Generator<MetricSample> {
  for (const [name, value] of Object.entries(report.intValues)) yield ["intValue", name, { value: Number(value) }];
  for (const [name, value] of Object.entries(report.floatValues)) yield ["floatValue", name, { value }];
  for (const [name, meter] of Object.entries(report.meters)) {
    yield ["meter", name, { count: Number(meter.count), ...rates(meter) }];
  }
  for (const [name, histogram] of Object.entries(report.histograms)) {
    yield ["histogram", name, { count: Number(histogram.count), ...distribution(histogram) }];
  }
  for (const [name, timer] of Object.entries(report.timers)) {
    yield ["timer", name, { count: Number(timer.count), ...rates(timer), ...distribution(timer) }];
  }
}

function rates(of: Pick<metricsPb.MetricsMessage_Meter, "meanRate" | "m1Rate" | "m5Rate" | "m15Rate">): Values {
  return { mean_rate: of.meanRate, m1_rate: of.m1Rate, m5_rate: of.m5Rate, m15_rate: of.m15Rate };
}

type Distribution = Omit<metricsPb.MetricsMessage_Histogram, "$typeName" | "$unknown" | "count">;

function distribution(of: Distribution): Values {
  return {
    min: Number(of.min),
    max: Number(of.max),
    mean: of.mean,
    std_dev: of.stdDev,
    variance: of.variance,
    p50: of.p50,
    p75: of.p75,
    p95: of.p95,
    p99: of.p99,
    p999: of.p999,
    p9999: of.p9999,
  };
}

/** Names of metrics about one thing hold its id: `ctrl.latency:<id>`, `link.<id>.latency`, `link.<id>.tx.bytesrate`. */
function nameParts(name: string): { metric: string; entityId?: string } {
  const colon = name.indexOf(":");
  if (colon >= 0 && (name.startsWith("ctrl.") || name.startsWith("link."))) {
    return { metric: name.slice(0, colon), entityId: name.slice(colon + 1) };
  }
  if (!name.startsWith("link.")) return { metric: name };
  const parts = name.split(".");
  const last = name.endsWith("latency") || name.endsWith("queue_time") ? 1 : 2;
  if (parts.length <= last + 1) return { metric: name };
  return { metric: ["link", ...parts.slice(-last)].join("."), entityId: parts.slice(1, -last).join(".") };
}

function timeOf({ timestamp }: metricsPb.MetricsMessage): string | undefined {
  if (timestamp === undefined) return undefined;
  const at = new Date(Number(timestamp.seconds) * 1_000 + Math.floor(timestamp.nanos / 1e6));
  return Number.isFinite(at.getTime()) ? at.toISOString() : undefined;
}

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

/** Counters that routers have: nothing else of a report is kept. */
const COUNTERS: ReadonlySet<string> = new Set(
  ["ingress", "egress", "fabric"].flatMap((place) => [`${place}.rx`, `${place}.tx`]),
);

/** Bytes that routers have reported since the controller started, by counter; for the metrics of the controller. */
export class UsageTotals {
  readonly #bytes = new Map<string, number>();

  add(metrics: metricsPb.MetricsMessage): void {
    if (metrics.doNotPropagate) return;
    // One bucket after the other: the router picks how many counters a report has.
    for (const { buckets } of metrics.usageCounters) {
      for (const { values } of Object.values(buckets)) {
        for (const [counter, bytes] of Object.entries(values)) {
          if (COUNTERS.has(counter)) this.#bytes.set(counter, (this.#bytes.get(counter) ?? 0) + Number(bytes));
        }
      }
    }
  }

  byCounter(): Record<string, number> {
    return Object.fromEntries(this.#bytes);
  }
}
