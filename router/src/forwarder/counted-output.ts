import { FairOutput, type Underlay } from "@sallyport/wire";

/** What the router counts about one link: plain numbers that a timer publishes. */
export type LinkCounters = ReturnType<typeof linkCounters>;

export function linkCounters() {
  return {
    /** Payloads written to it, and their bytes of data. */
    payloadsOut: 0,
    payloadBytesOut: 0,
    /** Payloads read from it for a circuit of this router, and their bytes of data. */
    payloadsIn: 0,
    payloadBytesIn: 0,
    /** Payloads that had to wait for room. */
    held: 0,
    /** Payloads dropped because too much was held already. */
    dropped: 0,
    /** Retransmissions dropped because their circuit had payloads waiting. */
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
