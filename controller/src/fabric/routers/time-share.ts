import { BoundedMap } from "@sallyport/async";

/** Of the time of the event loop. */
const SHARE = 0.25;
/** Milliseconds that may be spent beyond it before anything follows: what a router says of itself when it connects. */
const ALLOWANCE_MS = 2_000;
/** No longer than a peer stays silent before its heartbeats are missed. */
const MAX_PAUSE_MS = 5_000;
/** Senders that have left in debt and are remembered. */
const MAX_REMEMBERED = 1_000;

/** How much of the event loop's time one sender's messages take. Times are those of `performance.now()`. */
export class TimeShare {
  /** Milliseconds spent beyond the share. */
  #debt = 0;
  #countedAt = 0;

  /** `ms` were spent until `now`. Returns for how many milliseconds nothing is to be read from the sender. */
  spent(ms: number, now: number): number {
    this.#debt = this.debt(now) + ms;
    this.#countedAt = now;
    return Math.min(MAX_PAUSE_MS, Math.max(0, this.#debt - ALLOWANCE_MS) / SHARE);
  }

  /** What is left of the debt. */
  debt(now: number): number {
    return Math.max(0, this.#debt - SHARE * (now - this.#countedAt));
  }
}

/** What senders owe that have left: a new connection is no new allowance. */
export class RememberedShares {
  readonly #shares = new BoundedMap<string, TimeShare>(MAX_REMEMBERED);

  get size(): number {
    return this.#shares.size;
  }

  /** That of a sender who comes back, or a new one. */
  of(id: string): TimeShare {
    return this.#shares.get(id) ?? new TimeShare();
  }

  /** The sender has left. Shares without debt are forgotten, and the longest remembered when there are too many. */
  left(id: string, share: TimeShare, now: number): void {
    this.#shares.delete(id);
    for (const [each, remembered] of this.#shares) if (remembered.debt(now) === 0) this.#shares.delete(each);
    if (share.debt(now) > 0) this.#shares.set(id, share);
  }
}
