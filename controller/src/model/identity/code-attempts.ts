import { apiError } from "@sallyport/api";
import { backoffDelay } from "@sallyport/async";
import type { Executor } from "../../store/driver/statement.ts";
import { failuresInARow, forgetFailures, putFailures } from "./failed-attempts.ts";

/** Wrong codes in a row without a pause. */
const MAX_FREE_ATTEMPTS = 5;
const PAUSES = { firstMs: 30_000, maxMs: 3_600_000 };

/**
 * Slows down a client that guesses one-time codes. Five in a row may be wrong; after each further one the identity pauses, for twice as long each time (30 s
 * to 1 h). The callers hold the lock of the enrollment from {@link require} until the failure is committed, so attempts at once gain nothing, be it at one
 * controller or at several.
 */
export class CodeAttempts {
  /** @returns how many were wrong in a row. @throws ApiError 429 with `retry-after` while the identity pauses */
  async require(db: Executor, identityId: string, now: Date): Promise<number> {
    const failures = await failuresInARow(db, keyOf(identityId));
    const { count = 0, until } = failures ?? {};
    // A free attempt that failed at the same time may have the later time of the two, and makes none wait.
    const wait = count > MAX_FREE_ATTEMPTS && until !== undefined ? until.getTime() - now.getTime() : 0;
    if (wait <= 0) return count;
    const headers = { "retry-after": String(Math.ceil(wait / 1000)) };
    throw apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers, detail: `identity ${identityId} guesses codes` });
  }

  async failed(db: Executor, identityId: string, now: Date): Promise<void> {
    const count = ((await failuresInARow(db, keyOf(identityId)))?.count ?? 0) + 1;
    const pauses = count - MAX_FREE_ATTEMPTS;
    const until = new Date(now.getTime() + (pauses > 0 ? backoffDelay(pauses, PAUSES) : 0));
    await putFailures(db, keyOf(identityId), { count, until });
  }

  /** A right code resets the count. */
  async succeeded(db: Executor, identityId: string): Promise<void> {
    await forgetFailures(db, keyOf(identityId));
  }
}

const keyOf = (identityId: string) => `codes ${identityId}`;
