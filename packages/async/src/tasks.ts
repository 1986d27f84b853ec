export interface PoolOptions {
  /** Tasks that run side by side. With 1 they run in the order in which they came. */
  readonly concurrency: number;
  /** Tasks that may wait; default as many as come. */
  readonly capacity?: number;
  /** Bytes that tasks may hold together while they wait and run; default as many as come. A single task is taken whatever it holds. */
  readonly maxBytes?: number;
  /** Gets what a task rejects with, and the pool goes on. Without it the rejection is an unhandled one, which ends the process. */
  readonly onError?: (error: unknown) => void;
}

interface Task {
  readonly run: () => Promise<void>;
  readonly bytes: number;
}

/** Runs so many tasks side by side, lets so many wait, and refuses the others: a flood costs bounded memory. */
export class Pool {
  readonly #options: PoolOptions;
  readonly #waiting: Task[] = [];
  #running = 0;
  /** Of what runs and waits. */
  #bytes = 0;
  #isClosed = false;
  #idle = Promise.withResolvers<void>();

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Takes a task; it starts at once or waits its turn.
   *
   * @param bytes that the task holds until it has run
   * @returns false when the pool is full or closed
   */
  offer(run: () => Promise<void>, bytes = 0): boolean {
    const { concurrency, capacity = Number.POSITIVE_INFINITY, maxBytes = Number.POSITIVE_INFINITY } = this.#options;
    const isBusy = this.#running >= concurrency;
    if (this.#isClosed || (isBusy && this.#waiting.length >= capacity)) return false;
    if (this.#bytes > 0 && this.#bytes + bytes > maxBytes) return false;
    this.#bytes += bytes;
    if (isBusy) this.#waiting.push({ run, bytes });
    else void this.#run({ run, bytes });
    return true;
  }

  /** Takes no further tasks and drops those that wait. Running tasks go on. */
  close(): void {
    this.#isClosed = true;
    this.#waiting.length = 0;
  }

  /** Resolves when no task runs and none waits. */
  async idle(): Promise<void> {
    if (this.#running > 0) await this.#idle.promise;
  }

  async #run(first: Task): Promise<void> {
    this.#running += 1;
    for (let task: Task | undefined = first; task !== undefined; task = this.#waiting.shift()) {
      try {
        await task.run();
      } catch (error) {
        if (this.#options.onError === undefined) void Promise.reject(error);
        else this.#options.onError(error);
      }
      this.#bytes -= task.bytes;
    }
    this.#running -= 1;
    if (this.#running > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers<void>();
  }
}

/**
 * Does `work` for every item, at most `limit` at a time, and answers the results in the order of the items.
 * After an error no further item is begun, and the promise rejects with it.
 */
export async function mapLimit<T, R>(
  items: Iterable<T>,
  limit: number,
  work: (item: T, index: number) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const waiting = items[Symbol.iterator]();
  let begun = 0;
  let hasFailed = false;
  const lane = async (first: T): Promise<void> => {
    for (let item = first; ; ) {
      const index = begun++;
      try {
        results[index] = await work(item, index);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
      const next = hasFailed ? undefined : waiting.next();
      if (next === undefined || next.done === true) return;
      item = next.value;
    }
  };
  const lanes: Promise<void>[] = [];
  while (lanes.length < limit) {
    const first = waiting.next();
    if (first.done === true) break;
    lanes.push(lane(first.value));
  }
  await Promise.all(lanes);
  return results;
}

/**
 * Runs tasks one after the other, in the order in which they came. A task that fails does not keep the next from running; the caller of `run`
 * handles its rejection.
 */
export class SerialQueue {
  #last: Promise<void> = Promise.resolve();

  /** Runs the task when those before it have ended. @returns its outcome */
  async run<T>(task: () => T | Promise<T>): Promise<T> {
    const before = this.#last;
    const turn = Promise.withResolvers<void>();
    this.#last = turn.promise;
    await before;
    try {
      return await task();
    } finally {
      turn.resolve();
    }
  }

  /** Resolves when all tasks so far have ended, also those that failed. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
