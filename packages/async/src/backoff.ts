/** A delay is multiplied by a random factor between these two: `[0.75, 1.25]` is a quarter more or less. */
export type Jitter = readonly [least: number, most: number];

export interface BackoffOptions {
  /** Delay after the first failure, in milliseconds; it doubles with each further failure. */
  readonly firstMs: number;
  /** Longest delay before jitter, in milliseconds. */
  readonly maxMs: number;
  /** Default: none. */
  readonly jitter?: Jitter | undefined;
  /** When no failure follows for this long after a delay, the next failure counts as the first. Default: only `reset` does that. */
  readonly healthyMs?: number;
}

/**
 * The delay before another attempt, in whole milliseconds.
 *
 * @param failures how many attempts have failed in a row, from 1
 */
export function backoffDelay(
  failures: number,
  { firstMs, maxMs, jitter }: Pick<BackoffOptions, "firstMs" | "maxMs" | "jitter">,
): number {
  return jittered(Math.min(firstMs * 2 ** (failures - 1), maxMs), jitter);
}

/** The delay with jitter, in whole milliseconds, so that many clients do not all come back at the same moment. */
export function jittered(ms: number, [least, most]: Jitter = [1, 1]): number {
  return Math.round(ms * (least + Math.random() * (most - least)));
}

/** Counts failures in a row and says how long to wait after each. */
export class Backoff {
  readonly #options: BackoffOptions;
  #failures = 0;
  #failedAt = 0;

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  /** Failures since the start or the last reset. */
  get failures(): number {
    return this.#failures;
  }

  /**
   * Counts a failure.
   *
   * @param maxMs in place of the limit given at first
   * @returns milliseconds to wait before the next attempt
   */
  next(maxMs = this.#options.maxMs): number {
    const { firstMs, jitter, healthyMs } = this.#options;
    if (healthyMs !== undefined) {
      const now = performance.now();
      const waitedMs = backoffDelay(this.#failures + 1, { firstMs, maxMs });
      if (now - this.#failedAt > healthyMs + waitedMs) this.reset();
      this.#failedAt = now;
    }
    this.#failures += 1;
    return backoffDelay(this.#failures, { firstMs, maxMs, jitter });
  }

  /** An attempt succeeded: the next failure counts as the first. */
  reset(): void {
    this.#failures = 0;
  }
}
