import { performance } from "node:perf_hooks";
import type { Histogram } from "./histogram.ts";
import type { MetricsSource } from "./router-metrics.ts";

/** A value of a family: labels as text between braces, or nothing. */
interface MetricSample {
  readonly suffix: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

interface MetricFamily {
  readonly type: "counter" | "gauge" | "summary";
  readonly samples: MetricSample[];
}

export const PREFIX = "sallyport_router_";
const QUANTILES = ["0.5", "0.75", "0.95", "0.99", "0.999", "0.9999"] as const;
/** Names that have an id in them: what stands before and behind it, and the label that it becomes. */
const LABELLED: readonly [pattern: RegExp, label: string][] = [
  [/^(link)\.([^.]+)\.(latency|queue_time|(?:tx|rx)\..+)$/, "link"],
  [/^(link\.dropped(?:_\w+)?_msgs):(.+)()$/, "link"],
  [/^(pool)\.(.+)\.(queue_size|worker_count|busy_workers|work_timer)$/, "pool"],
];

/** A metric of value 1, whose labels say something about the router. */
export interface InfoMetric {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** All that is measured in the text format of Prometheus, version 0.0.4 (docs/router/observability.md, "Prometheus"). */
export function prometheusText(source: MetricsSource, info: readonly InfoMetric[]): string {
  const families = new Map<string, MetricFamily>();
  const add = (name: string, type: MetricFamily["type"], ...samples: MetricSample[]): void => {
    const family = families.get(name) ?? { type, samples: [] };
    families.set(name, family);
    family.samples.push(...samples);
  };
  const plain = (name: string, type: "counter" | "gauge", value: number, labels = {}): void =>
    add(name, type, { suffix: "", labels, value });

  for (const { name, labels } of info) plain(name, "gauge", 1, labels);
  for (const [given, value] of source.gauges()) {
    const { name, labels } = nameOf(given);
    plain(name, "gauge", value, labels);
  }
  for (const [given, { count }] of source.meters()) {
    const { name, labels } = nameOf(given);
    plain(counterName(name), "counter", count, labels);
  }
  for (const [given, histogram] of source.histograms()) {
    const { name, labels } = nameOf(given);
    const isTime = given.endsWith(".latency") || given.endsWith(".queue_time");
    add(isTime ? `${name}_seconds` : `${name}_bytes`, "summary", ...summary(histogram, labels, isTime ? 1e9 : 1));
  }
  for (const [given, { histogram }] of source.timers()) {
    const { name, labels } = nameOf(given);
    add(`${name}_seconds`, "summary", ...summary(histogram, labels, 1e9));
  }
  for (const [name, type, value] of processValues()) plain(name, type, value);
  return [...families].map(([name, family]) => familyText(name, family)).join("");
}

function familyText(name: string, { type, samples }: MetricFamily): string {
  const lines = samples.map(
    ({ suffix, labels, value }) => `${name}${suffix}${labelText(labels)} ${numberText(value)}\n`,
  );
  return `# TYPE ${name} ${type}\n${lines.join("")}`;
}

function summary(histogram: Histogram, labels: Readonly<Record<string, string>>, unit: number): MetricSample[] {
  const { count, mean, percentiles } = histogram.snapshot();
  const quantiles = QUANTILES.map((quantile, i) => ({
    suffix: "",
    labels: { ...labels, quantile },
    value: count === 0 ? Number.NaN : (percentiles[i] ?? 0) / unit,
  }));
  return [
    ...quantiles,
    { suffix: "_sum", labels, value: (mean * count) / unit },
    { suffix: "_count", labels, value: count },
  ];
}

/** `link.<id>.latency` becomes `sallyport_router_link_latency{link="<id>"}`. */
function nameOf(given: string): { name: string; labels: Record<string, string> } {
  for (const [pattern, label] of LABELLED) {
    const [, before, id, behind] = pattern.exec(given) ?? [];
    if (before === undefined || id === undefined) continue;
    return { name: plainName(behind ? `${before}.${behind}` : before), labels: { [label]: id } };
  }
  return { name: plainName(given), labels: {} };
}

function plainName(text: string): string {
  return PREFIX + text.replaceAll(/[^A-Za-z0-9]+/g, "_").toLowerCase();
}

/** Meters are counted: how fast they go is what a query says. */
function counterName(name: string): string {
  return `${name.replace(/_msgrate$/, "_messages").replace(/_bytesrate$/, "_bytes")}_total`;
}

function labelText(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`,
  );
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function numberText(value: number): string {
  return Number.isNaN(value) ? "NaN" : String(value);
}

/** What is known of every process, under the names that dashboards look for. */
function* processValues(): Iterable<readonly [name: string, type: "counter" | "gauge", value: number]> {
  const { userCPUTime, systemCPUTime } = process.resourceUsage();
  const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
  yield ["process_cpu_seconds_total", "counter", (userCPUTime + systemCPUTime) / 1e6];
  yield ["process_start_time_seconds", "gauge", performance.timeOrigin / 1000];
  yield ["process_resident_memory_bytes", "gauge", rss];
  yield ["nodejs_heap_size_used_bytes", "gauge", heapUsed];
  yield ["nodejs_heap_size_total_bytes", "gauge", heapTotal];
  yield ["nodejs_external_memory_bytes", "gauge", external];
  yield ["nodejs_eventloop_utilization", "gauge", performance.eventLoopUtilization().utilization];
}
