/**
 * Functions that are called together, in the order in which they were added. A listener that is added while they are called waits for the next
 * call; one that is removed meanwhile is not called any more.
 */
export class Listeners<Args extends readonly unknown[] = []> {
  readonly #entries = new Set<{ readonly listener: (...args: Args) => void }>();
  readonly #onError: ((error: unknown) => void) | undefined;

  /** @param onError gets the error that a listener throws, and the others are called. Without it `emit` throws the error and calls no further listener. */
  constructor(onError?: (error: unknown) => void) {
    this.#onError = onError;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** @returns removes the listener; calling it again does nothing */
  add(listener: (...args: Args) => void): () => void {
    const entry = { listener };
    this.#entries.add(entry);
    return () => void this.#entries.delete(entry);
  }

  emit(...args: Args): void {
    for (const entry of [...this.#entries]) {
      if (!this.#entries.has(entry)) continue;
      try {
        entry.listener(...args);
      } catch (error) {
        if (this.#onError === undefined) throw error;
        this.#onError(error);
      }
    }
  }

  /** Removes all listeners. */
  clear(): void {
    this.#entries.clear();
  }
}
