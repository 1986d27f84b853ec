import { AckScheduler, FramePool, ScanTimer, xgressCounters } from "@sallyport/wire";

/** What all circuits of a context share: memory, timers, and what is counted. */
export class CircuitSupplies {
  readonly pool = new FramePool();
  readonly counters = xgressCounters();
  readonly acks = new AckScheduler();
  readonly scans = new ScanTimer();

  close(): void {
    this.acks.close();
  }
}
