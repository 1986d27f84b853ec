import { type Attributed, filingAttributes, type RoleSelector, type Semantic } from "./selector.ts";

/** The transaction that made a change, and when. */
export interface Stamp {
  readonly xid: bigint;
  readonly at: Date;
}

/** The identities that a change concerns: all, those that have an attribute, one, those that a policy selects. */
type Scope = "all" | `attr:${string}` | `identity:${string}` | `policy:${string}`;

/**
 * When did the services of an identity last change? Clients ask this often and fetch their services again when the answer differs from the last one.
 *
 * Changes are stamped on policies and on what selectors name (never on each identity), so a policy for half of all identities costs a few entries. The answer is
 * the newest stamp that concerns the identity, where "newest" is the highest transaction number below which no transaction is still open: so every
 * process that reads the same log gives the same answer, and no late commit is missed.
 */
export class ServiceUpdates {
  readonly #maxStamps: number;
  readonly #stamps = new Map<Scope, Stamp>();
  #waiting: { scope: Scope; stamp: Stamp }[] = [];

  /** @param maxStamps how many are kept; with more, all are forgotten and every client lists its services once. */
  constructor(maxStamps = 200_000) {
    this.#maxStamps = maxStamps;
  }

  /** Are there stamps that do not count yet, because older transactions were open? */
  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  /** A service, or a config of it, changed: `policyIds` = the service policies that selected it before or select it now. */
  serviceChanged(policyIds: Iterable<string>, stamp: Stamp): void {
    for (const id of policyIds) this.#waiting.push({ scope: `policy:${id}`, stamp });
  }

  /** A service policy was made, changed or removed: the identities that its old or new selector names have to list their services. */
  policyChanged(selectors: Iterable<{ selector: RoleSelector; semantic: Semantic }>, stamp: Stamp): void {
    for (const { selector, semantic } of selectors) {
      if (selector.all) this.#waiting.push({ scope: "all", stamp });
      for (const attr of filingAttributes(selector, semantic)) this.#waiting.push({ scope: `attr:${attr}`, stamp });
      for (const id of selector.ids) this.#waiting.push({ scope: `identity:${id}`, stamp });
    }
  }

  /** Any identity's services may have changed. */
  everythingChanged(stamp: Stamp): void {
    this.#waiting.push({ scope: "all", stamp });
  }

  /** The identity's attributes or service configs changed. */
  identityChanged(id: string, stamp: Stamp): void {
    this.#waiting.push({ scope: `identity:${id}`, stamp });
  }

  /** Lets count what was done by transactions before the oldest open one. @param snapshot text of `pg_current_snapshot()`: `xmin:xmax:open,…` */
  advance(snapshot: string): void {
    const horizon = BigInt(snapshot.slice(0, snapshot.indexOf(":")));
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const entry of waiting) {
      if (entry.stamp.xid >= horizon) this.#waiting.push(entry);
      else this.#count(entry.scope, entry.stamp);
    }
  }

  /**
   * The time to show: seconds of the newest stamp, milliseconds from its transaction number, so that two changes within a second differ,
   * and from what is shown as long as nothing has changed, which has none.
   * @param policyIds the service policies that select the identity
   * @param otherwise while no stamp counts yet
   */
  lastChange(identity: Attributed, policyIds: Iterable<string>, otherwise: Date): Date {
    const scopes: Scope[] = ["all", `identity:${identity.id}`];
    for (const attr of identity.attrs) scopes.push(`attr:${attr}`);
    for (const id of policyIds) scopes.push(`policy:${id}`);
    let newest: Stamp | undefined;
    for (const scope of scopes) {
      const stamp = this.#stamps.get(scope);
      if (stamp && (newest === undefined || stamp.xid > newest.xid)) newest = stamp;
    }
    if (!newest) return wholeSecond(otherwise);
    return new Date(wholeSecond(newest.at).getTime() + 1 + Number(newest.xid % 999n));
  }

  #count(scope: Scope, stamp: Stamp): void {
    if ((this.#stamps.get(scope)?.xid ?? -1n) >= stamp.xid) return;
    this.#stamps.set(scope, stamp);
    if (this.#stamps.size <= this.#maxStamps) return;
    const newest = [...this.#stamps.values()].reduce((a, b) => (a.xid > b.xid ? a : b));
    this.#stamps.clear();
    this.#stamps.set("all", newest);
  }

  /** Forgets a policy that is gone. */
  forgetPolicy(id: string): void {
    this.#stamps.delete(`policy:${id}`);
  }
}

function wholeSecond(time: Date): Date {
  return new Date(Math.floor(time.getTime() / 1000) * 1000);
}
