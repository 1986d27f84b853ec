import { Pool } from "@sallyport/async";
import { Histogram } from "../metrics/histogram.ts";
import type { WorkPool } from "../metrics/work-pool.ts";

/** A pool whose work is measured for the metrics. */
export class WorkQueue implements WorkPool {
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

  /** False when the queue is full; a closed queue drops the task. The task handles its own errors: a rejection ends the process as any unhandled one. */
  run(task: () => Promise<void>): boolean {
    if (this.#isClosed) return true;
    return this.#pool.offer(async () => {
      const started = performance.now();
      await task();
      this.work.update((performance.now() - started) * 1e6);
    });
  }

  /** Drops the waiting tasks. */
  close(): void {
    this.#isClosed = true;
    this.#pool.close();
  }
}
