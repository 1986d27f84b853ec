import { BoundedMap } from "@sallyport/async";
import { sql } from "kysely";
import type { Db } from "../context.ts";

/** Of one identity: a hundred clients that share it may each have sessions for a thousand services. */
export const MAX_SESSIONS = 100_000;
const MAX_IDENTITIES = 10_000;

interface Count {
  /** No fewer than there are: ends of sessions are not subtracted. */
  atMost: number;
  /** Minus infinity when sessions have ended since. */
  countedAt: number;
}

/** How many sessions identities have, as far as it matters whether one more may be made: counted, and counted again when that many were made. */
export class SessionCount {
  readonly #max: number;
  readonly #now: () => number;
  /** The one that was asked for longest ago is forgotten. */
  readonly #counts = new BoundedMap<string, Count>(MAX_IDENTITIES);
  /** Grows with every end, which a count that is under way may have missed. */
  #ends = 0;

  constructor(max = MAX_SESSIONS, now: () => number = () => performance.now()) {
    this.#max = max;
    this.#now = now;
  }

  /** May the identity have one session more, as far as is known? It is counted as made. */
  take(identityId: string): boolean {
    const known = this.#counts.touch(identityId);
    if (known === undefined) return false;
    if (known.atMost >= this.#max) return false;
    known.atMost++;
    return true;
  }

  /**
   * As {@link take}, and counts when nothing is known or no room is.
   * @param trustMs how long a full count is believed while no session ends
   */
  async takeCounted(db: Db, identityId: string, trustMs: number): Promise<boolean> {
    const known = this.#counts.get(identityId);
    const isTrusted = known !== undefined && this.#now() - known.countedAt < trustMs;
    if (!isTrusted && (known === undefined || known.atMost >= this.#max)) {
      const ends = this.#ends;
      const atMost = await this.#count(db, identityId);
      this.#counts.set(identityId, { atMost, countedAt: ends === this.#ends ? this.#now() : Number.NEGATIVE_INFINITY });
    }
    return this.take(identityId);
  }

  /** Sessions of the identity have ended: a full count is believed no longer. */
  ended(identityId: string): void {
    this.#ends++;
    const known = this.#counts.get(identityId);
    if (known !== undefined) known.countedAt = Number.NEGATIVE_INFINITY;
  }

  async #count(db: Db, identityId: string): Promise<number> {
    const { rows } = await sql<{ count: number }>`SELECT count(*)::int AS count FROM
      (SELECT 1 FROM session WHERE identity_id = ${identityId} LIMIT ${this.#max}) s`.execute(db);
    return rows[0]?.count ?? 0;
  }
}
