import { BoundedMap } from "@sallyport/async";

const MAX_COUNTED = 100_000;

/**
 * Consecutive failed logins by authenticator, in memory. Bounded: the longest untouched counters are forgotten first,
 * and a counter exists only for authenticators that exist.
 */
export class FailedAttempts {
  readonly #counts = new BoundedMap<string, number>(MAX_COUNTED);

  /** Counts one more failure and answers how many there are in a row. */
  add(authenticatorId: string): number {
    const count = (this.#counts.get(authenticatorId) ?? 0) + 1;
    this.#counts.set(authenticatorId, count);
    return count;
  }

  /** A success, or a lockout, begins the count anew. */
  reset(authenticatorId: string): void {
    this.#counts.delete(authenticatorId);
  }
}
