import type { Logger } from "@sallyport/wire";
import { contest } from "./duplicate.ts";
import type { Link } from "./link.ts";

export interface LinkRegistryEvents {
  /** In use from now on. `replaced`: the link it takes the place of, which closes later. */
  added(link: Link, replaced: Link | undefined): void;
  /** Closed. `wasCurrent`: nothing else had taken its place. */
  removed(link: Link, wasCurrent: boolean, reason: Error | undefined): void;
}

const times = {
  /** A rejected link that was accepted stays open this long, so that the other end can close it first. */
  rejectedAcceptedMs: 30_000,
  replacedDialedMs: 60_000,
  replacedAcceptedMs: 75_000,
};

/** The established links by key and by id; settles which of two links between the same ends stays. */
export class LinkRegistry {
  readonly #byKey = new Map<string, Link>();
  readonly #byId = new Map<string, Link>();
  readonly #all = new Set<Link>();
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
    this.#all.add(link);
    this.#byKey.set(link.key, link);
    this.#byId.set(link.id, link);
    const replaced = outcome === "replace" ? existing : undefined;
    this.#events.added(link, replaced);
    link.onClose((reason) => this.#closed(link, reason));
    if (replaced !== undefined && !replaced.isClosed) {
      this.#log.info({ linkId: replaced.id, by: link.id, peerId: link.peerId }, "link replaced by a duplicate");
      this.#later(replaced.isDialed ? times.replacedDialedMs : times.replacedAcceptedMs, () =>
        replaced.close(new Error("another link has taken its place")),
      );
    }
    return true;
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    for (const link of this.#all) link.close();
  }

  #reject(link: Link, existing: Link): void {
    existing.duplicatesRejected++;
    this.#log.info({ linkId: link.id, existing: existing.id, peerId: link.peerId }, "duplicate link turned away");
    const reason = new Error("there is a link between these routers already");
    if (link.isDialed) link.close(reason);
    else this.#later(times.rejectedAcceptedMs, () => link.close(reason));
  }

  #closed(link: Link, reason: Error | undefined): void {
    this.#all.delete(link);
    if (this.#byId.get(link.id) === link) this.#byId.delete(link.id);
    const wasCurrent = this.#byKey.get(link.key) === link;
    if (wasCurrent) this.#byKey.delete(link.key);
    this.#events.removed(link, wasCurrent, reason);
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
