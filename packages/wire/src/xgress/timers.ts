/** How often every xgress is looked at. */
const INTERVAL_MS = 100;

/** Something that wants to be looked at from time to time. */
export interface Scanned {
  scan(now: number): void;
}

/**
 * One timer per router for retransmission and closing of all circuits. It runs only while there are circuits.
 */
export class ScanTimer {
  readonly #scanned = new Set<Scanned>();
  #timer: NodeJS.Timeout | undefined;
  #lastAt = 0;
  #wasLate = false;

  add(scanned: Scanned): void {
    this.#scanned.add(scanned);
    if (this.#timer !== undefined) return;
    this.#lastAt = performance.now();
    this.#timer = setInterval(this.#scan, INTERVAL_MS);
    this.#timer.unref();
  }

  delete(scanned: Scanned): void {
    this.#scanned.delete(scanned);
    if (this.#scanned.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  readonly #scan = (): void => {
    const now = performance.now();
    // The program was busy: acknowledgements may lie unread, and what they are for must not be sent again. Once.
    this.#wasLate = !this.#wasLate && now - this.#lastAt > 1.5 * INTERVAL_MS;
    this.#lastAt = now;
    if (this.#wasLate) return;
    for (const scanned of this.#scanned) scanned.scan(now);
  };
}

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
