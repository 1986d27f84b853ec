import type { LinkCounters } from "../forwarder/counted-output.ts";
import { type Histogram, MeanSamples } from "./histogram.ts";

/** A link as it is counted. */
export interface CountedLink {
  readonly id: string;
  readonly counters: LinkCounters;
  /** What is measured of it besides, by full name: its latency, how long frames wait. */
  histograms(): Iterable<readonly [name: string, histogram: Histogram]>;
}

interface Sizes {
  readonly counters: LinkCounters;
  readonly tx: MeanSamples;
  readonly rx: MeanSamples;
}

const SUMMED = ["payloadsOut", "payloadBytesOut", "payloadsIn", "payloadBytesIn"] as const;
type Sums = Record<(typeof SUMMED)[number], number>;

/** What is reported of each link, under names that end with it, and of all links together. Sums never fall when a link goes. */
export class LinkMetrics {
  readonly #links: () => Iterable<CountedLink>;
  readonly #gone: Sums = { payloadsOut: 0, payloadBytesOut: 0, payloadsIn: 0, payloadBytesIn: 0 };
  readonly #fabric = { tx: new MeanSamples(), rx: new MeanSamples() };
  #sizes = new Map<string, Sizes>();

  constructor(links: () => Iterable<CountedLink>) {
    this.#links = links;
  }

  *totals(): Iterable<readonly [name: string, total: number]> {
    const known = this.#look();
    const sums = { ...this.#gone };
    for (const { id, counters } of known) {
      yield [`link.${id}.tx.msgrate`, counters.payloadsOut];
      yield [`link.${id}.tx.bytesrate`, counters.payloadBytesOut];
      yield [`link.${id}.rx.msgrate`, counters.payloadsIn];
      yield [`link.${id}.rx.bytesrate`, counters.payloadBytesIn];
      yield [`link.dropped_msgs:${id}`, counters.dropped + counters.droppedRetransmits];
      yield [`link.dropped_fwd_msgs:${id}`, counters.dropped];
      yield [`link.dropped_rtx_msgs:${id}`, counters.droppedRetransmits];
      for (const key of SUMMED) sums[key] += counters[key];
    }
    yield ["fabric.tx.msgrate", sums.payloadsOut];
    yield ["fabric.tx.bytesrate", sums.payloadBytesOut];
    yield ["fabric.rx.msgrate", sums.payloadsIn];
    yield ["fabric.rx.bytesrate", sums.payloadBytesIn];
    this.#fabric.tx.look(sums.payloadsOut, sums.payloadBytesOut);
    this.#fabric.rx.look(sums.payloadsIn, sums.payloadBytesIn);
  }

  *histograms(): Iterable<readonly [name: string, histogram: Histogram]> {
    for (const link of this.#links()) yield* link.histograms();
    for (const [id, { tx, rx }] of this.#sizes) {
      yield [`link.${id}.tx.msgsize`, tx.histogram];
      yield [`link.${id}.rx.msgsize`, rx.histogram];
    }
    yield ["fabric.tx.msgsize", this.#fabric.tx.histogram];
    yield ["fabric.rx.msgsize", this.#fabric.rx.histogram];
  }

  /** The links there are now; what those that are gone had counted goes into the sums. */
  #look(): CountedLink[] {
    const links = [...this.#links()];
    const sizes = new Map<string, Sizes>();
    for (const { id, counters } of links) {
      const before = this.#sizes.get(id);
      const same = before?.counters === counters ? before : undefined;
      const now = same ?? { counters, tx: new MeanSamples(), rx: new MeanSamples() };
      now.tx.look(counters.payloadsOut, counters.payloadBytesOut);
      now.rx.look(counters.payloadsIn, counters.payloadBytesIn);
      sizes.set(id, now);
    }
    for (const [id, { counters }] of this.#sizes) {
      if (sizes.get(id)?.counters === counters) continue;
      for (const key of SUMMED) this.#gone[key] += counters[key];
    }
    this.#sizes = sizes;
    return links;
  }
}
