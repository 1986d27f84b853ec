import { FairOutput, type Underlay } from "@sallyport/wire";

/** What the router counts about one link: plain numbers that a timer publishes. */
export interface LinkCounters {
  /** Payloads written to it, and their bytes of data. */
  payloadsOut: number;
  payloadBytesOut: number;
  /** Payloads read from it for a circuit of this router, and their bytes of data. */
  payloadsIn: number;
  payloadBytesIn: number;
  /** Payloads that had to wait for room. */
  held: number;
  /** Payloads dropped because too much was held already. */
  dropped: number;
  /** Retransmissions dropped because their circuit had payloads waiting. */
  droppedRetransmits: number;
}

export function linkCounters(): LinkCounters {
  return {
    payloadsOut: 0,
    payloadBytesOut: 0,
    payloadsIn: 0,
    payloadBytesIn: 0,
    held: 0,
    dropped: 0,
    droppedRetransmits: 0,
  };
}

/** The output of one of a destination's connections, and where what is written to it is counted. */
export class CountedOutput extends FairOutput {
  readonly counters: LinkCounters;

  constructor(underlay: Underlay, counters: LinkCounters) {
    super(underlay);
    this.counters = counters;
  }
}
