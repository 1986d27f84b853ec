import type { Result } from "../kube/queue/worker.ts";

/** A look that is due later than this may as well be a little later, milliseconds. */
const PATIENT_MS = 20_000;
const MOMENT_MS = 5_000;

/**
 * Puts the next look that nobody waits for on a moment that others share: what is looked at together is asked for together, and between these moments the
 * program sleeps.
 * @param nowMs of a clock that all share
 */
export function atSharedMoment(result: Result, nowMs: number): Result {
  const afterMs = result?.requeueAfterMs;
  if (afterMs === undefined || afterMs < PATIENT_MS) return result;
  return { requeueAfterMs: Math.ceil((nowMs + afterMs) / MOMENT_MS) * MOMENT_MS - nowMs };
}
