interface Task {
  readonly run: () => Promise<void>;
  readonly bytes: number;
}

/** Bytes of the requests in a lane. One is taken whatever its size. */
const MOST_BYTES = 64 * 1024 * 1024;

/** Queue of one router's requests: so many at a time, so many waiting, so many bytes, and no more. A flood of one router costs bounded memory and only its own time. */
export class WorkLane {
  readonly #concurrency: number;
  readonly #capacity: number;
  readonly #onError: (error: unknown) => void;
  readonly #waiting: Task[] = [];
  #running = 0;
  /** Of what runs and waits. */
  #bytes = 0;
  #isClosed = false;
  #idle = Promise.withResolvers<void>();

  /** `onError` gets what a task rejects with; the lane goes on. */
  constructor(concurrency: number, capacity: number, onError: (error: unknown) => void) {
    this.#concurrency = concurrency;
    this.#capacity = capacity;
    this.#onError = onError;
  }

  /**
   * Takes a task, or answers false when the lane is full or closed. With a concurrency of 1 tasks run in the order they came.
   * @param bytes that are kept until it has run
   */
  offer(run: () => Promise<void>, bytes = 0): boolean {
    if (this.#isClosed) return false;
    if (this.#bytes > 0 && this.#bytes + bytes > MOST_BYTES) return false;
    const task = { run, bytes };
    if (this.#running < this.#concurrency) {
      this.#bytes += bytes;
      void this.#run(task);
      return true;
    }
    if (this.#waiting.length >= this.#capacity) return false;
    this.#bytes += bytes;
    this.#waiting.push(task);
    return true;
  }

  /** Drops what waits; what runs goes on to its end. */
  close(): void {
    this.#isClosed = true;
    this.#waiting.length = 0;
  }

  /** Resolves when nothing runs; for a lane that was closed. */
  async idle(): Promise<void> {
    if (this.#running > 0) await this.#idle.promise;
  }

  async #run(first: Task): Promise<void> {
    this.#running += 1;
    for (let task: Task | undefined = first; task !== undefined; task = this.#waiting.shift()) {
      try {
        await task.run();
      } catch (error) {
        this.#onError(error);
      }
      this.#bytes -= task.bytes;
    }
    this.#running -= 1;
    if (this.#running > 0) return;
    this.#idle.resolve();
    this.#idle = Promise.withResolvers<void>();
  }
}
