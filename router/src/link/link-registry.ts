import type { Logger } from "@sallyport/wire";
import type { Link } from "./link.ts";

export interface LinkRegistryEvents {
  /** In use from now on. */
  added(link: Link): void;
  /** Lost its place to `by`, which has proved to work, and closes later. */
  replaced(link: Link, by: Link): void;
  /** Closed. `wasCurrent`: it was the link in use for its key; `heir`: the link that is in use instead. */
  removed(link: Link, wasCurrent: boolean, reason: Error | undefined, heir: Link | undefined): void;
}

const times = {
  /** A rejected link that was accepted stays open this long, so that the other end can close it first. */
  rejectedAcceptedMs: 30_000,
  replacedDialedMs: 60_000,
  replacedAcceptedMs: 75_000,
};

/**
 * The established links by key and by id; settles which of two links between the same ends stays
 * (docs/protocol/links.md, "Duplicates"). The loser is given up only when the winner has proved that its other end wants it,
 * and takes its place back when the winner ends before.
 */
export class LinkRegistry {
  readonly #byKey = new Map<string, Link>();
  readonly #byId = new Map<string, Link>();
  readonly #all = new Set<Link>();
  /** By a winner that has yet to prove itself: the open link whose place it took. */
  readonly #losers = new Map<Link, Link>();
  /** Turned away and still open. */
  readonly #turnedAway = new Set<Link>();
  readonly #events: LinkRegistryEvents;
  readonly #log: Logger;
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(events: LinkRegistryEvents, log: Logger) {
    this.#events = events;
    this.#log = log;
  }

  /** Links in use; those that lost a contest and still close are not among them. */
  current(): Link[] {
    return [...this.#byKey.values()];
  }

  byId(id: string): Link | undefined {
    return this.#byId.get(id);
  }

  byKey(key: string): Link | undefined {
    return this.#byKey.get(key);
  }

  /**
   * Takes a new link in, or turns it away (then false): as a duplicate, or because its id, which its dialer chose, is
   * that of another link in use. The forwarder knows links by id, so that one would lose its circuits to the newcomer.
   */
  register(link: Link): boolean {
    const holder = this.#byId.get(link.id);
    if (holder !== undefined && holder.key !== link.key && !holder.isClosed) {
      this.#log.warn({ linkId: link.id, peerId: link.peerId, holder: holder.peerId }, "link id in use: link refused");
      link.close(new Error("another link has this id"));
      return false;
    }
    const existing = this.#byKey.get(link.key);
    const outcome = contest(existing, link);
    if (outcome === "reject") {
      if (existing !== undefined && !link.isClosed) this.#reject(link, existing);
      return false;
    }
    this.#take(link, existing);
    return true;
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    for (const link of [...this.#all, ...this.#turnedAway]) link.close();
  }

  #take(link: Link, existing: Link | undefined): void {
    this.#all.add(link);
    this.#byKey.set(link.key, link);
    this.#byId.set(link.id, link);
    this.#events.added(link);
    link.onClose((reason) => this.#closed(link, reason));
    if (existing === undefined || existing.isClosed || link.isClosed) return;
    if (existing.id === link.id) {
      // A redial: who dials has given the old one up, so there is nothing to wait for.
      this.#retire(existing);
      return;
    }
    this.#losers.set(link, existing);
    link.onProven(() => {
      if (!this.#losers.delete(link) || existing.isClosed) return;
      this.#log.info({ linkId: existing.id, by: link.id, peerId: link.peerId }, "link replaced by a duplicate");
      this.#events.replaced(existing, link);
      this.#retire(existing);
    });
  }

  #retire(link: Link): void {
    const ms = link.isDialed ? times.replacedDialedMs : times.replacedAcceptedMs;
    this.#later(ms, () => link.close(new Error("another link has taken its place")));
  }

  #reject(link: Link, existing: Link): void {
    existing.duplicatesRejected++;
    this.#log.info({ linkId: link.id, existing: existing.id, peerId: link.peerId }, "duplicate link turned away");
    this.#turnedAway.add(link);
    link.onClose(() => this.#turnedAway.delete(link));
    const close = (): void => {
      if (this.#turnedAway.delete(link)) link.close(new Error("there is a link between these routers already"));
    };
    if (link.isDialed) existing.onProven(close);
    else this.#later(times.rejectedAcceptedMs, close);
  }

  #closed(link: Link, reason: Error | undefined): void {
    this.#all.delete(link);
    if (this.#byId.get(link.id) === link) this.#byId.delete(link.id);
    const loser = this.#losers.get(link);
    this.#losers.delete(link);
    const wasCurrent = this.#byKey.get(link.key) === link;
    if (!wasCurrent) {
      // A third link has the place meanwhile: the one that waited for this one's end is not needed either.
      if (loser !== undefined && !loser.isClosed) this.#retire(loser);
      this.#events.removed(link, false, reason, undefined);
      return;
    }
    this.#byKey.delete(link.key);
    if (loser !== undefined && !loser.isClosed) {
      this.#byKey.set(link.key, loser);
      this.#log.info({ linkId: loser.id, instead: link.id, peerId: link.peerId }, "link in use again");
      this.#events.removed(link, true, reason, loser);
      return;
    }
    const heir = [...this.#turnedAway].find((other) => other.key === link.key && !other.isClosed);
    this.#events.removed(link, true, reason, heir);
    if (heir === undefined) return;
    this.#turnedAway.delete(heir);
    this.#take(heir, undefined);
  }

  #later(ms: number, act: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      act();
    }, ms);
    timer.unref();
    this.#timers.add(timer);
  }
}

/** A link as far as a contest between duplicates looks at it. */
type Contestant = Readonly<Pick<Link, "id" | "isClosed" | "duplicatesRejected">>;

/** A link that has turned away this many duplicates gives way: the other end evidently does not see it. */
const MAX_REJECTED_DUPLICATES = 5;

/**
 * Which of two links with the same key stays (docs/protocol/links.md, "Duplicates"): the lower id, so that both ends
 * choose the same, unless the old one has already turned away five. The same id (a redial) always replaces.
 */
export function contest(existing: Contestant | undefined, added: Contestant): "add" | "replace" | "reject" {
  if (added.isClosed) return "reject";
  if (existing === undefined) return "add";
  if (existing.isClosed) return "replace";
  return existing.id < added.id && existing.duplicatesRejected + 1 <= MAX_REJECTED_DUPLICATES ? "reject" : "replace";
}
