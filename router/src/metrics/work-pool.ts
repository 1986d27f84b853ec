import { Pool } from "@sallyport/async";
import { Histogram } from "./histogram.ts";

/** A pool of workers as it is reported. */
export interface WorkPool {
  readonly waiting: number;
  /** 0: as many as there is work. */
  readonly workers: number;
  readonly busy: number;
  /** How long its tasks took, in nanoseconds. */
  readonly work: Histogram;
}

/** Counts running tasks; it has no limit, and so no queue. */
export class CountedPool implements WorkPool {
  readonly workers = 0;
  readonly waiting = 0;
  readonly work = new Histogram();
  busy = 0;

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

/** A pool whose work is measured for the metrics. */
export class MeasuredPool implements WorkPool {
  readonly workers: number;
  readonly work = new Histogram();
  readonly #pool: Pool;
  #isClosed = false;

  constructor(workers: number, length: number) {
    this.workers = workers;
    this.#pool = new Pool({ concurrency: workers, capacity: length });
  }

  get waiting(): number {
    return this.#pool.waiting;
  }

  get busy(): number {
    return this.#pool.running;
  }

  /** False when the queue is full; a closed queue drops the task. The task handles its own errors: a rejection would end the process. */
  run(task: () => Promise<void>): boolean {
    if (this.#isClosed) return true;
    return this.#pool.offer(async () => {
      const started = performance.now();
      await task();
      this.work.update((performance.now() - started) * 1e6);
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#pool.close();
  }
}
