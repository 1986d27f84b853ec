import type { metricsPb } from "@sallyport/wire";

/** Counters that routers have: nothing else of a report is kept. */
const COUNTERS: ReadonlySet<string> = new Set([
  "ingress.rx",
  "ingress.tx",
  "egress.rx",
  "egress.tx",
  "fabric.rx",
  "fabric.tx",
]);
const MAX_ROUTERS = 10_000;

/** Bytes that routers have reported since the controller started; for the metrics of the controller. */
export class UsageTotals {
  readonly #byRouter = new Map<string, Map<string, number>>();

  add(metrics: metricsPb.MetricsMessage): void {
    if (metrics.doNotPropagate) return;
    for (const interval of metrics.usageCounters) {
      for (const bucket of Object.values(interval.buckets)) {
        for (const [counter, bytes] of Object.entries(bucket.values))
          this.#add(metrics.sourceId, counter, Number(bytes));
      }
    }
  }

  /** Every number there is. */
  *entries(): Generator<{ readonly routerId: string; readonly counter: string; readonly bytes: number }> {
    for (const [routerId, counters] of this.#byRouter) {
      for (const [counter, bytes] of counters) yield { routerId, counter, bytes };
    }
  }

  /** The sums over all routers by counter. */
  byCounter(): Record<string, number> {
    const sums: Record<string, number> = {};
    for (const { counter, bytes } of this.entries()) sums[counter] = (sums[counter] ?? 0) + bytes;
    return sums;
  }

  #add(routerId: string, counter: string, bytes: number): void {
    if (!COUNTERS.has(counter)) return;
    const counters = this.#byRouter.get(routerId) ?? new Map<string, number>();
    if (counters.size === 0) {
      if (this.#byRouter.size >= MAX_ROUTERS) return;
      this.#byRouter.set(routerId, counters);
    }
    counters.set(counter, (counters.get(counter) ?? 0) + bytes);
  }
}
