import { randomUUID } from "node:crypto";
import { ControlType, encodeControl, type Logger, metricsPb } from "@sallyport/wire";
import type { Controllers } from "../control/controllers/controllers.ts";
import type { Histogram } from "./histogram.ts";
import type { MeterSnapshot } from "./meter.ts";
import type { MetricsSource } from "./router-metrics.ts";
import type { Usage, UsageInReport } from "./usage.ts";

export interface MetricsReporterOptions {
  readonly routerId: string;
  readonly controllers: Controllers;
  readonly intervalMs: number;
  /** Reports that may wait for a controller; while so many wait no further one is made. */
  readonly queueLength: number;
  readonly source: MetricsSource;
  readonly usage: Usage;
  readonly log: Logger;
}

type MetricsReport = ReturnType<MetricsReporter["message"]>;

/** After something worth a report, the next one waits this long for more of it. */
const SOON_MS = 250;

/**
 * Reports to the controllers, which learn the latency of links, and so the cost of paths, from nothing else
 * (docs/protocol/control.md, "Metrics"). Reports leave in order: each waits until one controller has taken it, which may
 * pass it on; the others get it too and are told not to. When too many wait none is made, so that meters and usage go on
 * and nothing of them is lost.
 */
export class MetricsReporter {
  readonly #o: MetricsReporterOptions;
  readonly #timer: NodeJS.Timeout;
  readonly #waiting: MetricsReport[] = [];
  #soon: NodeJS.Timeout | undefined;
  #isHeldUp = false;

  constructor(options: MetricsReporterOptions) {
    this.#o = options;
    this.#timer = setInterval(() => this.report(), options.intervalMs);
    this.#timer.unref();
    options.controllers.onConnected(() => this.reportSoon());
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /** A report in a moment instead of at the next interval: a link was measured for the first time, or a controller came. */
  reportSoon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.report();
    }, SOON_MS).unref();
  }

  report(): void {
    this.#send();
    const { queueLength, usage, log } = this.#o;
    if (this.#waiting.length >= queueLength) {
      if (!this.#isHeldUp)
        log.warn({ reports: queueLength }, "no controller takes metrics; no more are collected until one does");
      this.#isHeldUp = true;
      return;
    }
    this.#isHeldUp = false;
    const now = Date.now();
    this.#waiting.push(this.message(now, usage.take(now)));
    this.#send();
  }

  /** The last word before a stop: usage of the interval that is not over yet, too. */
  flush(): void {
    const now = Date.now();
    this.#o.usage.collect(now);
    this.#waiting.push(this.message(now, this.#o.usage.take(now, true)));
    this.#send();
  }

  /** The fields of a report. Histograms without a sample are left out. */
  message(now: number, usage: readonly UsageInReport[] = []) {
    const { routerId, source } = this.#o;
    const entries = <T, U>(from: Iterable<readonly [string, T]>, to: (value: T) => U): Record<string, U> =>
      Object.fromEntries([...from].map(([name, value]) => [name, to(value)]));
    return {
      eventId: randomUUID(),
      sourceId: routerId,
      timestamp: { seconds: BigInt(Math.floor(now / 1000)), nanos: (now % 1000) * 1_000_000 },
      intValues: entries(source.gauges(), (value) => BigInt(Math.round(value))),
      meters: entries(source.meters(), wireMeter),
      histograms: entries(
        [...source.histograms()].filter(([, histogram]) => histogram.count > 0),
        (histogram) => wireHistogram(histogram.snapshot()),
      ),
      timers: entries(
        [...source.timers()].filter(([, { histogram }]) => histogram.count > 0),
        ({ histogram, meter }) => ({ ...meter, ...wireHistogram(histogram.snapshot()) }),
      ),
      usageCounters: usage.map(wireUsage),
    };
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
  }

  /** Sends the waiting reports, oldest first, until no controller takes one. */
  #send(): void {
    for (let report = this.#waiting[0]; report !== undefined; report = this.#waiting[0]) {
      let isTaken = false;
      for (const controller of this.#o.controllers.all()) {
        const body = encodeControl(metricsPb.MetricsMessageSchema, { ...report, doNotPropagate: isTaken });
        if (this.#o.controllers.sendTo(controller.id, { contentType: ControlType.Metrics, body })) isTaken = true;
      }
      if (!isTaken) return;
      this.#waiting.shift();
    }
  }
}

function wireMeter(snapshot: MeterSnapshot) {
  return { ...snapshot, count: BigInt(snapshot.count) };
}

function wireHistogram(s: ReturnType<Histogram["snapshot"]>) {
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

function wireUsage({ start, lengthSeconds, circuits }: UsageInReport) {
  const buckets = [...circuits].map(([circuitId, { bytes, tags }]) => {
    const values = Object.fromEntries([...bytes].map(([kind, count]) => [kind, BigInt(count)]));
    return [circuitId, { values, tags: { ...tags } }] as const;
  });
  return {
    intervalStartUtc: BigInt(start),
    intervalLength: BigInt(lengthSeconds),
    buckets: Object.fromEntries(buckets),
  };
}
