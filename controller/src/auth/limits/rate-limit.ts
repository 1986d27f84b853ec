import { apiError } from "@sallyport/api";

const MAX_KEYS = 100_000;

/** How often something may happen: `burst` at once, and `perMinute` in the long run. */
export interface Rate {
  readonly burst: number;
  readonly perMinute: number;
}

export interface RateLimitOptions {
  /** Milliseconds of a clock that does not go back. */
  readonly now?: (() => number) | undefined;
  /** How many processes share the rate: each admits its part. It may change at any time. */
  readonly sharedBy?: (() => number) | undefined;
}

interface TokenBucket {
  tokens: number;
  /** Milliseconds at which `tokens` was right. */
  at: number;
}

/**
 * A token bucket per key. Memory is bounded: a full bucket takes none, and beyond a hundred thousand keys the least recently used one is forgotten, which
 * admits rather than refuses.
 */
export class RateLimit {
  readonly #whole: Rate;
  readonly #now: () => number;
  readonly #sharedBy: () => number;
  readonly #buckets = new Map<string, TokenBucket>();

  constructor(rate: Rate, { now, sharedBy }: RateLimitOptions = {}) {
    this.#whole = rate;
    this.#now = now ?? (() => performance.now());
    this.#sharedBy = sharedBy ?? (() => 1);
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** Milliseconds until the key has a token; 0 when it has one. Takes none. */
  wait(key: string): number {
    const bucket = this.#buckets.get(key);
    if (bucket === undefined) return 0;
    const tokens = this.#refilled(bucket);
    return tokens >= 1 ? 0 : Math.ceil(((1 - tokens) * 60_000) / this.#rate.perMinute);
  }

  /** Takes a token; with none left, answers the milliseconds until there is one, and takes none. */
  take(key: string): number {
    const wait = this.wait(key);
    if (wait > 0) return wait;
    const bucket = this.#buckets.get(key);
    const tokens = (bucket === undefined ? this.#rate.burst : this.#refilled(bucket)) - 1;
    this.#buckets.delete(key);
    this.#buckets.set(key, { tokens, at: this.#now() });
    if (this.#buckets.size > MAX_KEYS) this.#forget();
    return 0;
  }

  /** Never less than one at once: otherwise none would be admitted. */
  get #rate(): Rate {
    const parts = this.#sharedBy();
    const { burst, perMinute } = this.#whole;
    return parts === 1 ? this.#whole : { burst: Math.max(1, burst / parts), perMinute: perMinute / parts };
  }

  #refilled({ tokens, at }: TokenBucket): number {
    const { burst, perMinute } = this.#rate;
    return Math.min(burst, tokens + ((this.#now() - at) * perMinute) / 60_000);
  }

  /** The oldest goes, and with it those next to it that are full. */
  #forget(): void {
    let first = true;
    for (const [key, bucket] of this.#buckets) {
      if (!first && this.#refilled(bucket) < this.#rate.burst) return;
      this.#buckets.delete(key);
      first = false;
    }
  }
}

/** 429 `SERVER_TOO_MANY_REQUESTS` with the seconds to wait; `detail` is for the log. */
export function tooManyRequests(waitMs: number, detail: string): Error {
  const seconds = Math.max(1, Math.ceil(waitMs / 1_000));
  return apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers: { "retry-after": String(seconds) }, detail });
}
