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
