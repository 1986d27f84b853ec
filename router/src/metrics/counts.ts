import { type EdgeCounters, edgeCounters } from "../edge/edge-counters.ts";
import type { Histogram } from "./histogram.ts";
import type { WorkPool } from "./work-pool.ts";

/** Where the parts of a router leave what they count; made once, before them. What reads it does so much later. */
export interface RouterCounts {
  readonly edge: EdgeCounters;
  /** By name: `link.dialer`, `route.handler`, … */
  readonly pools: Map<string, WorkPool>;
  /** Durations in nanoseconds, by the name of their timer. */
  readonly timers: Map<string, Histogram>;
  /** What has a value at every moment, by name. */
  readonly gauges: Map<string, () => number>;
}

export function routerCounts(): RouterCounts {
  return { edge: edgeCounters(), pools: new Map(), timers: new Map(), gauges: new Map() };
}
