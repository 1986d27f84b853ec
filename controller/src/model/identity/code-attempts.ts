import { apiError } from "@sallyport/api";
import { BoundedMap, backoffDelay } from "@sallyport/async";

const FREE = 5;
const PAUSES = { firstMs: 30_000, maxMs: 3_600_000 };
const MAX_COUNTED = 100_000;

interface Failures {
  count: number;
  /** Nothing is looked at before this moment. */
  until: number;
}

/**
 * Slows down who guesses one-time codes: five in a row may be wrong, after each further one the identity pauses, for twice as long each time (30 s to 1 h).
 * An attempt counts before it is looked at, so that many at once are no way around. In memory and bounded: the longest untouched are forgotten first.
 */
export class CodeAttempts {
  readonly #failures = new BoundedMap<string, Failures>(MAX_COUNTED);

  /** @throws ApiError 429 with `retry-after` while the identity pauses */
  require(identityId: string, now: Date): void {
    const wait = (this.#failures.get(identityId)?.until ?? 0) - now.getTime();
    if (wait <= 0) return;
    const headers = { "retry-after": String(Math.ceil(wait / 1000)) };
    throw apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers, detail: `identity ${identityId} guesses codes` });
  }

  /** Counts an attempt. @throws ApiError 429 as {@link require} */
  begin(identityId: string, now: Date): void {
    this.require(identityId, now);
    const failures = this.#failures.get(identityId) ?? { count: 0, until: 0 };
    failures.count += 1;
    const pauses = failures.count - FREE;
    if (pauses > 0) failures.until = now.getTime() + backoffDelay(pauses, PAUSES);
    this.#failures.set(identityId, failures);
  }

  /** A right code begins the count anew. */
  succeeded(identityId: string): void {
    this.#failures.delete(identityId);
  }
}
