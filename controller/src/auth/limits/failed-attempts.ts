const MAX_COUNTED = 100_000;

/**
 * Consecutive failed logins by authenticator, in memory. Bounded: the longest untouched counters are forgotten first,
 * and a counter exists only for authenticators that exist.
 */
export class FailedAttempts {
  readonly #counts = new Map<string, number>();

  /** Counts one more failure and answers how many there are in a row. */
  add(authenticatorId: string): number {
    const count = (this.#counts.get(authenticatorId) ?? 0) + 1;
    this.#counts.delete(authenticatorId);
    this.#counts.set(authenticatorId, count);
    const oldest = this.#counts.size > MAX_COUNTED ? this.#counts.keys().next().value : undefined;
    if (oldest !== undefined) this.#counts.delete(oldest);
    return count;
  }

  /** A success, or a lockout, begins the count anew. */
  reset(authenticatorId: string): void {
    this.#counts.delete(authenticatorId);
  }
}
