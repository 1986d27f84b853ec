import type { XgressCounters, XgressLoad } from "@sallyport/wire";
import type { EdgeCounters } from "../edge/edge-counters.ts";
import { type Histogram, MeanSamples } from "./histogram.ts";
import { type CountedLink, LinkMetrics } from "./link-metrics.ts";
import { type MeterSnapshot, Meters } from "./meter.ts";
import type { Traffic } from "./traffic.ts";
import type { WorkPool } from "./work-pool.ts";

/** What the parts of a router count: each its own plain numbers. */
export interface CountedParts {
  readonly xgress: XgressCounters;
  /** The load of all local ends at the moment. */
  readonly load: () => XgressLoad;
  readonly traffic: Traffic;
  readonly links: () => Iterable<CountedLink>;
  readonly edge: EdgeCounters;
  readonly gauges: () => Iterable<readonly [name: string, value: number]>;
  /** By the name behind `pool.`. */
  readonly pools: ReadonlyMap<string, WorkPool>;
  /** Durations of further kinds of work, in nanoseconds, by name. */
  readonly timers: ReadonlyMap<string, Histogram>;
}

/** Everything that is measured, by the names operators know; read when a report or a client asks. */
export type MetricsSource = Pick<RouterMetrics, "gauges" | "meters" | "histograms" | "timers">;

/** Everything the router measures, put together (docs/protocol/control.md, "Metrics"). */
export class RouterMetrics {
  readonly #parts: CountedParts;
  readonly #links: LinkMetrics;
  readonly #meters: Meters;
  readonly #rates: Meters;
  readonly #blocked = new MeanSamples();

  constructor(parts: CountedParts) {
    this.#parts = parts;
    this.#links = new LinkMetrics(parts.links);
    this.#meters = new Meters(() => this.#totals());
    this.#rates = new Meters(() => [...this.#durations()].map(([name, { count }]) => [name, count] as const));
  }

  *gauges(): Iterable<readonly [name: string, value: number]> {
    yield* this.#parts.gauges();
    const load = this.#parts.load();
    yield ["xgress.blocked_by_local_window", load.blockedByWindow];
    yield ["xgress.blocked_by_remote_window", load.blockedByPeer];
    yield ["xgress.tx_unacked_payloads", load.unackedPayloads];
    yield ["xgress.tx_unacked_payload_bytes", load.unackedBytes];
    yield ["xgress.acks.queue_size", load.acksWaiting];
    // Payloads are sent again where they are found late: there is no queue of them.
    yield ["xgress.retransmits.queue_size", 0];
    for (const [name, pool] of this.#parts.pools) {
      yield [`pool.${name}.queue_size`, pool.waiting];
      yield [`pool.${name}.worker_count`, pool.workers === 0 ? pool.busy : pool.workers];
      yield [`pool.${name}.busy_workers`, pool.busy];
    }
  }

  *meters(): Iterable<readonly [name: string, meter: MeterSnapshot]> {
    for (const [name, meter] of this.#meters.all()) yield [name, meter.snapshot()];
  }

  *histograms(): Iterable<readonly [name: string, histogram: Histogram]> {
    yield* this.#links.histograms();
    yield* this.#parts.traffic.histograms();
  }

  /** Durations in nanoseconds, with the rates of the work that took them. */
  *timers(): Iterable<readonly [name: string, timer: { histogram: Histogram; meter: MeterSnapshot }]> {
    for (const [name, histogram] of this.#durations()) {
      const meter = this.#rates.get(name)?.snapshot() ?? NO_RATES;
      yield [name, { histogram, meter: { ...meter, count: histogram.count } }];
    }
  }

  close(): void {
    this.#meters.close();
    this.#rates.close();
  }

  *#durations(): Iterable<readonly [name: string, histogram: Histogram]> {
    yield ["xgress.blocked_time", this.#blocked.histogram];
    for (const [name, pool] of this.#parts.pools) yield [`pool.${name}.work_timer`, pool.work];
    yield* this.#parts.timers;
  }

  *#totals(): Iterable<readonly [name: string, total: number]> {
    const { xgress, edge, traffic } = this.#parts;
    yield ["xgress.tx.acks", xgress.acksOut];
    yield ["xgress.rx.acks", xgress.acksIn];
    yield ["xgress.ack_duplicates", xgress.acksDuplicate];
    yield ["xgress.ack_failures", xgress.acksFailed];
    yield ["xgress.retransmissions", xgress.retransmissions];
    yield ["xgress.retransmission_failures", xgress.retransmissionsFailed];
    yield ["xgress.payload_duplicates", xgress.duplicates];
    yield ["xgress.dropped_payloads", xgress.dropped];
    yield ["xgress.blocked_by_local_window_rate", xgress.blockedByWindow];
    yield ["xgress.blocked_by_remote_window_rate", xgress.blockedByPeer];
    this.#blocked.look(xgress.sourceStops, xgress.sourceStoppedMs * 1e6);
    yield ["edge.connect.successes", edge.connects];
    yield ["edge.connect.failures", edge.connectsFailed];
    yield ["edge.disconnects", edge.disconnects];
    yield ["edge.invalid_api_tokens", edge.invalidTokens];
    yield ["edge.invalid_api_tokens_during_sync", edge.invalidTokensDuringSync];
    yield ["xgress.edge.dropped_msgs", edge.droppedMessages];
    yield ["xgress.edge.dropped_payloads", edge.droppedPayloads];
    yield ["xgress.edge.dropped_acks", edge.droppedAcks];
    yield* this.#links.totals();
    yield* traffic.totals();
  }
}

const NO_RATES: MeterSnapshot = { count: 0, m1Rate: 0, m5Rate: 0, m15Rate: 0, meanRate: 0 };
