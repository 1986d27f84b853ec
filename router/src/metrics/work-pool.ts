import { Histogram } from "./histogram.ts";

/** A pool of workers as it is reported. */
export interface WorkPool {
  readonly waiting: number;
  readonly workers: number;
  readonly busy: number;
  /** How long its tasks took, in nanoseconds. */
  readonly work: Histogram;
}

/** Counts who works; for pools that are no queues themselves. */
export class CountedPool implements WorkPool {
  readonly workers: number;
  readonly waiting = 0;
  readonly work = new Histogram();
  busy = 0;

  /** @param workers 0: as many as there is work */
  constructor(workers = 0) {
    this.workers = workers;
  }

  /** Runs a task as one of the pool. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    const started = performance.now();
    this.busy++;
    try {
      return await task();
    } finally {
      this.busy--;
      this.work.update((performance.now() - started) * 1e6);
    }
  }
}
