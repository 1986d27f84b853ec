import { randomUUID } from "node:crypto";
import { ControlType, encodeControl, type Logger, metricsPb } from "@sallyport/wire";
import type { Controllers } from "../control/controllers.ts";
import type { Histogram } from "./histogram.ts";
import type { Meter } from "./meter.ts";

/** What a report contains; read at the moment it is made. */
export interface MetricsSource {
  histograms(): Iterable<readonly [name: string, histogram: Histogram]>;
  gauges(): Iterable<readonly [name: string, value: number]>;
  meters(): Iterable<readonly [name: string, meter: Meter]>;
}

export interface MetricsReporterOptions {
  readonly routerId: string;
  readonly controllers: Controllers;
  readonly intervalMs: number;
  readonly source: MetricsSource;
  readonly log: Logger;
}

/** After something worth a report, the next one waits this long for more of it. */
const SOON_MS = 250;

/**
 * Reports to the controllers, which learn the latency of links, and so the cost of paths, from nothing else
 * (docs/protocol/control.md, "Metrics"). One controller may pass a report on; the others are told not to.
 */
export class MetricsReporter {
  readonly #o: MetricsReporterOptions;
  readonly #timer: NodeJS.Timeout;
  #soon: NodeJS.Timeout | undefined;

  constructor(options: MetricsReporterOptions) {
    this.#o = options;
    this.#timer = setInterval(() => this.report(), options.intervalMs);
    this.#timer.unref();
    options.controllers.onConnected(() => this.reportSoon());
  }

  /** A report in a moment instead of at the next interval: a link was measured for the first time, or a controller came. */
  reportSoon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      this.report();
    }, SOON_MS).unref();
  }

  report(): void {
    const message = this.message(Date.now());
    for (const [i, controller] of this.#o.controllers.all().entries()) {
      const body = encodeControl(metricsPb.MetricsMessageSchema, { ...message, doNotPropagate: i > 0 });
      this.#o.controllers.sendTo(controller.id, { contentType: ControlType.Metrics, body });
    }
  }

  /** The fields of a report. Histograms without a sample are left out. */
  message(now: number) {
    const histograms: Record<string, ReturnType<typeof wireHistogram>> = {};
    for (const [name, histogram] of this.#o.source.histograms()) {
      if (histogram.count > 0) histograms[name] = wireHistogram(histogram);
    }
    const intValues = Object.fromEntries(
      [...this.#o.source.gauges()].map(([name, value]) => [name, BigInt(Math.round(value))]),
    );
    const meters = Object.fromEntries(
      [...this.#o.source.meters()].map(([name, meter]) => {
        const snapshot = meter.snapshot();
        return [name, { ...snapshot, count: BigInt(snapshot.count) }];
      }),
    );
    return {
      eventId: randomUUID(),
      sourceId: this.#o.routerId,
      timestamp: { seconds: BigInt(Math.floor(now / 1000)), nanos: (now % 1000) * 1_000_000 },
      histograms,
      intValues,
      meters,
    };
  }

  close(): void {
    clearInterval(this.#timer);
    clearTimeout(this.#soon);
  }
}

function wireHistogram(histogram: Histogram) {
  const s = histogram.snapshot();
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
