import { FairOutput, type Underlay } from "@sallyport/wire";
import type { LinkCounters } from "./link-counters.ts";

/** The output of one of a destination's connections, and where what is written to it is counted. */
export class CountedOutput extends FairOutput {
  readonly counters: LinkCounters;

  constructor(underlay: Underlay, counters: LinkCounters) {
    super(underlay);
    this.counters = counters;
  }
}
