import { backoffDelay } from "@sallyport/async";
import { namespaceOf } from "./waiting-keys.ts";

const FIRST_MS = 5;
const LONGEST_MS = 1_000_000;
const PER_SECOND = 10;
const BURST = 100;
/** Namespaces that are remembered before those that wait for nothing are forgotten. */
const MEMORY = 1_000;

interface RetryLimiterOptions {
  /** Delay after the first failure of a key; doubles. Default 5 ms. */
  readonly firstMs?: number;
  /** Default 1,000 s. */
  readonly longestMs?: number;
  /** Retries of all keys of a namespace together; default 10 per second, after a burst of 100. */
  readonly perSecond?: number;
  readonly burst?: number;
}

/** How long a failed key waits: longer for each of its failures in a row, and longer when very many keys of its namespace fail. The longer of both counts. */
export class RetryLimiter {
  readonly #o: Required<RetryLimiterOptions>;
  readonly #failures = new Map<string, number>();
  /** By namespace: until when the retries that were promised would take, one after the other at the rate. */
  readonly #takenUntil = new Map<string, number>();

  constructor(o: RetryLimiterOptions = {}) {
    this.#o = { firstMs: FIRST_MS, longestMs: LONGEST_MS, perSecond: PER_SECOND, burst: BURST, ...o };
  }

  /** Counts a failure of the key and answers its delay in milliseconds. */
  failed(key: string): number {
    const { firstMs, longestMs } = this.#o;
    const before = this.#failures.get(key) ?? 0;
    this.#failures.set(key, before + 1);
    return Math.max(backoffDelay(before + 1, { firstMs, maxMs: longestMs }), this.#turnDelay(namespaceOf(key)));
  }

  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  forget(key: string): void {
    this.#failures.delete(key);
  }

  #turnDelay(namespace: string): number {
    const { perSecond, burst } = this.#o;
    const now = performance.now();
    const eachMs = 1000 / perSecond;
    const takenUntil = Math.max(this.#takenUntil.get(namespace) ?? now, now) + eachMs;
    if (this.#takenUntil.size >= MEMORY) this.#forgetIdle(now);
    this.#takenUntil.set(namespace, takenUntil);
    return Math.max(0, takenUntil - now - burst * eachMs);
  }

  #forgetIdle(now: number): void {
    for (const [namespace, takenUntil] of this.#takenUntil) if (takenUntil <= now) this.#takenUntil.delete(namespace);
  }
}
