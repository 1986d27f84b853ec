/** How long acknowledgements wait for company. */
const DELAY_MS = 3;

/** Something with acknowledgements to send. */
export interface AckSource {
  flushAcks(): void;
}

/**
 * Lets acknowledgements of all circuits leave together: one timer per process, started by the first that waits. Delayed
 * acknowledgements cost a tenth of what one per payload does (docs/protocol/data-path.md, "Acknowledgements").
 */
class AckScheduler {
  #waiting: AckSource[] = [];
  #armed = false;

  /** Has `source` flushed within a few milliseconds. Call once per batch. */
  enter(source: AckSource): void {
    this.#waiting.push(source);
    if (this.#armed) return;
    this.#armed = true;
    setTimeout(this.#flush, DELAY_MS);
  }

  readonly #flush = (): void => {
    this.#armed = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const source of waiting) source.flushAcks();
  };
}

/** The scheduler of this thread. */
export const ackScheduler = new AckScheduler();
