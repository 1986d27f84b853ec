import { sql } from "kysely";
import type { Db } from "../context.ts";

/** Of one identity: a hundred clients that share it may each have sessions for a thousand services. */
export const MOST_SESSIONS = 100_000;
/** How long a full count is believed: to count so many rows takes time. */
const FULL_FOR_MS = 10_000;
const MOST_IDENTITIES = 10_000;

interface Count {
  /** No fewer than there are: ends of sessions are not subtracted. */
  atMost: number;
  readonly countedAt: number;
}

/** How many sessions identities have, as far as it matters whether one more may be made: counted, and counted again when that many were made. */
export class SessionCount {
  readonly #most: number;
  readonly #now: () => number;
  /** The one that was asked for longest ago is forgotten. */
  readonly #counts = new Map<string, Count>();

  constructor(most = MOST_SESSIONS, now: () => number = () => performance.now()) {
    this.#most = most;
    this.#now = now;
  }

  /** May the identity have one session more? It is counted as made. */
  async take(db: Db, identityId: string): Promise<boolean> {
    let known = this.#counts.get(identityId);
    if (known === undefined || (known.atMost >= this.#most && this.#now() - known.countedAt >= FULL_FOR_MS)) {
      known = { atMost: await this.#count(db, identityId), countedAt: this.#now() };
    }
    this.#counts.delete(identityId);
    this.#counts.set(identityId, known);
    const [oldest] = this.#counts.keys();
    if (this.#counts.size > MOST_IDENTITIES && oldest !== undefined) this.#counts.delete(oldest);
    if (known.atMost >= this.#most) return false;
    known.atMost++;
    return true;
  }

  async #count(db: Db, identityId: string): Promise<number> {
    const { rows } = await sql<{ count: number }>`SELECT count(*)::int AS count FROM
      (SELECT 1 FROM session WHERE identity_id = ${identityId} LIMIT ${this.#most}) s`.execute(db);
    return rows[0]?.count ?? 0;
  }
}
