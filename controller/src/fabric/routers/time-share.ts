/** Of the time of the event loop. */
const SHARE = 0.25;
/** Milliseconds that may be spent beyond it before anything follows: what a router says of itself when it connects. */
const ALLOWANCE_MS = 2_000;
/** No longer than a peer stays silent before its heartbeats are missed. */
const LONGEST_PAUSE_MS = 5_000;

/** How much of the event loop's time one sender's messages take. */
export class TimeShare {
  readonly #pause: (ms: number) => void;
  /** Milliseconds spent beyond the share. */
  #debt = 0;
  #countedAt = 0;

  /** @param pause is asked to read nothing from the sender for so many milliseconds */
  constructor(pause: (ms: number) => void) {
    this.#pause = pause;
  }

  /** `ms` were spent until `now`, a time of `performance.now()`. */
  spent(ms: number, now: number): void {
    this.#debt = Math.max(0, this.#debt - SHARE * (now - this.#countedAt)) + ms;
    this.#countedAt = now;
    if (this.#debt <= ALLOWANCE_MS) return;
    this.#pause(Math.min(LONGEST_PAUSE_MS, (this.#debt - ALLOWANCE_MS) / SHARE));
  }
}
