/** How long acknowledgements wait for company. */
const DELAY_MS = 3;

/** Something with acknowledgements to send. */
export interface AckSource {
  flushAcks(): void;
}

/**
 * Lets acknowledgements of all circuits leave together: one timer per router, started by the first that waits. Delayed
 * acknowledgements cost a tenth of what one per payload does (docs/protocol/data-path.md, "Acknowledgements").
 */
export class AckScheduler {
  #waiting: AckSource[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** Has `source` flushed within a few milliseconds. Call once per batch. */
  enter(source: AckSource): void {
    this.#waiting.push(source);
    this.#timer ??= setTimeout(this.#flush, DELAY_MS);
  }

  /** Forgets who waits. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting = [];
  }

  readonly #flush = (): void => {
    this.#timer = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const source of waiting) source.flushAcks();
  };
}
