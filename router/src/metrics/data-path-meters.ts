import type { XgressCounters } from "@sallyport/wire";
import type { LinkCounters } from "../forwarder/link-counters.ts";
import { METER_TICK_MS, Meter } from "./meter.ts";

/** The counters of the data path. */
export interface DataPathCounters {
  readonly xgress: XgressCounters;
  /** The links there are now. */
  links(): Iterable<{ readonly id: string; readonly counters: LinkCounters }>;
}

/** Publishes the data path's counters as meters, under the names operators know (docs/protocol/control.md, "Metrics"). */
export class DataPathMeters {
  readonly #counters: DataPathCounters;
  readonly #timer: NodeJS.Timeout;
  #meters = new Map<string, Meter>();
  /** Sums over links that are gone, so that the sums over all links never fall. */
  readonly #gone = { messages: 0, bytes: 0 };
  #links = new Map<string, LinkCounters>();

  constructor(counters: DataPathCounters) {
    this.#counters = counters;
    this.tick(Date.now());
    this.#timer = setInterval(() => this.tick(Date.now()), METER_TICK_MS);
    this.#timer.unref();
  }

  /** Brings all meters up to date; those of links that are gone end. Called by the timer. */
  tick(now: number): void {
    const meters = new Map<string, Meter>();
    for (const [name, total] of this.#totals()) {
      const meter = this.#meters.get(name) ?? new Meter(now);
      meter.tick(total, now);
      meters.set(name, meter);
    }
    this.#meters = meters;
  }

  all(): Iterable<readonly [name: string, meter: Meter]> {
    return this.#meters;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  *#totals(): Iterable<readonly [name: string, total: number]> {
    const { xgress } = this.#counters;
    yield ["xgress.tx.acks", xgress.acksOut];
    yield ["xgress.rx.acks", xgress.acksIn];
    yield ["xgress.retransmissions", xgress.retransmissions];
    yield ["xgress.payload_duplicates", xgress.duplicates];
    yield ["xgress.dropped_payloads", xgress.dropped];
    const links = new Map([...this.#counters.links()].map((link) => [link.id, link.counters] as const));
    for (const [id, counters] of this.#links) {
      if (links.get(id) === counters) continue;
      this.#gone.messages += counters.payloadsOut;
      this.#gone.bytes += counters.payloadBytesOut;
    }
    this.#links = links;
    let { messages, bytes } = this.#gone;
    for (const [id, counters] of links) {
      yield [`link.${id}.tx.msgrate`, counters.payloadsOut];
      yield [`link.${id}.tx.bytesrate`, counters.payloadBytesOut];
      yield [`link.dropped_msgs:${id}`, counters.dropped + counters.droppedRetransmits];
      yield [`link.dropped_fwd_msgs:${id}`, counters.dropped];
      yield [`link.dropped_rtx_msgs:${id}`, counters.droppedRetransmits];
      messages += counters.payloadsOut;
      bytes += counters.payloadBytesOut;
    }
    yield ["fabric.tx.msgrate", messages];
    yield ["fabric.tx.bytesrate", bytes];
  }
}
