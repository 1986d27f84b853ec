import { Histogram } from "../metrics/histogram.ts";
import type { WorkPool } from "../metrics/work-pool.ts";

/** Runs tasks side by side up to a number of workers; the rest waits in a bounded queue, in order. */
export class WorkQueue implements WorkPool {
  readonly workers: number;
  readonly work = new Histogram();
  readonly #length: number;
  readonly #waiting: (() => Promise<void>)[] = [];
  #busy = 0;
  #closed = false;

  constructor(workers: number, length: number) {
    this.workers = workers;
    this.#length = length;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get busy(): number {
    return this.#busy;
  }

  /** False when the queue is full. The task handles its own errors: a rejection ends the process as any unhandled one. */
  run(task: () => Promise<void>): boolean {
    if (this.#closed) return true;
    if (this.#busy >= this.workers) {
      if (this.#waiting.length >= this.#length) return false;
      this.#waiting.push(task);
      return true;
    }
    void this.#work(task);
    return true;
  }

  /** Drops what waits. */
  close(): void {
    this.#closed = true;
    this.#waiting.length = 0;
  }

  async #work(task: () => Promise<void>): Promise<void> {
    this.#busy++;
    try {
      for (let next: (() => Promise<void>) | undefined = task; next !== undefined; next = this.#waiting.shift()) {
        const started = performance.now();
        await next();
        this.work.update((performance.now() - started) * 1e6);
      }
    } finally {
      this.#busy--;
    }
  }
}
