const INITIAL_MS = 800;
const MAX_MS = 30_000;
/** Without a failure for this long the next one counts as the first. */
const HEALTHY_MS = 120_000;

export interface BackoffOptions {
  readonly initialMs?: number;
  readonly maxMs?: number;
  readonly healthyMs?: number;
}

/** How long to wait after each failure of a list or watch: doubling, and up to as much again by chance, so that many watchers do not return at once. */
export class Backoff {
  readonly #initialMs: number;
  readonly #maxMs: number;
  readonly #healthyMs: number;
  #baseMs: number;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor({ initialMs = INITIAL_MS, maxMs = MAX_MS, healthyMs = HEALTHY_MS }: BackoffOptions = {}) {
    this.#initialMs = initialMs;
    this.#maxMs = maxMs;
    this.#healthyMs = healthyMs;
    this.#baseMs = initialMs;
  }

  /** Milliseconds to wait now; `atLeastMs` is what the server asked for. */
  next(atLeastMs = 0): number {
    const now = performance.now();
    if (now - this.#lastAt > this.#healthyMs + this.#baseMs) this.#baseMs = this.#initialMs;
    const base = this.#baseMs;
    this.#lastAt = now;
    this.#baseMs = Math.min(base * 2, this.#maxMs);
    return Math.max(atLeastMs, base * (1 + Math.random()));
  }
}
