import type { Histogram, HistogramSnapshot } from "./histogram.ts";
import type { MeterSnapshot } from "./meter.ts";

/** Everything that is measured, by the names operators know (docs/protocol/control.md, "Metrics"); read when asked. */
export interface MetricsSource {
  gauges(): Iterable<readonly [name: string, value: number]>;
  meters(): Iterable<readonly [name: string, meter: MeterSnapshot]>;
  histograms(): Iterable<readonly [name: string, histogram: Histogram]>;
  /** Durations in nanoseconds, with the rates of what took them. */
  timers(): Iterable<readonly [name: string, timer: { readonly histogram: Histogram; readonly meter: MeterSnapshot }]>;
}

export function wireMeter(snapshot: MeterSnapshot) {
  return { ...snapshot, count: BigInt(snapshot.count) };
}

export function wireHistogram(s: HistogramSnapshot) {
  const [p50 = 0, p75 = 0, p95 = 0, p99 = 0, p999 = 0, p9999 = 0] = s.percentiles;
  return {
    count: BigInt(s.count),
    max: BigInt(Math.round(s.max)),
    mean: s.mean,
    min: BigInt(Math.round(s.min)),
    stdDev: s.stdDev,
    variance: s.variance,
    p50,
    p75,
    p95,
    p99,
    p999,
    p9999,
  };
}
