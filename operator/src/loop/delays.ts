import type { ObjectKey } from "../kube/kinds.ts";
import type { Result } from "../kube/queue/worker.ts";

/** An API server that has just started refuses all clients until it has read the rights: a right is missing only if it is after this time, milliseconds. */
const SHOWN_AFTER_MS = 3_000;
/** A refusal after this much time without one is another one, milliseconds: more than the longest wait between two attempts. */
const FORGOTTEN_MS = 900_000;

interface Refusal {
  readonly since: number;
  readonly last: number;
}

/** Which resources stand still for a right that is missing, and since when. */
export class Refusals {
  readonly #refusals = new Map<ObjectKey, Refusal>();

  /** How long a refusal of now need not be shown yet. */
  leftMs(key: ObjectKey, now = performance.now()): number {
    const known = this.#refusals.get(key);
    const since = known !== undefined && now - known.last < FORGOTTEN_MS ? known.since : now;
    this.#refusals.set(key, { since, last: now });
    return since + SHOWN_AFTER_MS - now;
  }

  forget(key: ObjectKey): void {
    this.#refusals.delete(key);
  }
}

/** A look that is due later than this may as well be a little later, milliseconds. */
const PATIENT_MS = 20_000;
const SHARED_MS = 5_000;

/**
 * Delays a periodic reconcile to a moment that others share: requests of one moment are batched, and between these moments the
 * program sleeps.
 * @param nowMs of a clock that all share
 */
export function atSharedMoment(result: Result, nowMs: number): Result {
  const afterMs = result?.requeueAfterMs;
  if (afterMs === undefined || afterMs < PATIENT_MS) return result;
  return { requeueAfterMs: Math.ceil((nowMs + afterMs) / SHARED_MS) * SHARED_MS - nowMs };
}
