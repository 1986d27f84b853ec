import type { ObjectKey } from "../kube/kinds.ts";

/** An API server that has just begun refuses everybody, until it has read the rights: they are missing only if they are after this time, milliseconds. */
const MOMENT_MS = 3_000;
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
    return since + MOMENT_MS - now;
  }

  forget(key: ObjectKey): void {
    this.#refusals.delete(key);
  }
}
