/** Identities one router may report: memory that a router can claim has a bound. */
const MAX_IDENTITIES_PER_ROUTER = 100_000;
/** What is longer is no id of an identity. */
const MAX_ID_LENGTH = 128;

interface IdentityReport {
  readonly identityId: string;
  readonly isConnected: boolean;
}

/** What a report changed, over all routers. */
interface StatusChanges {
  readonly online: readonly string[];
  readonly offline: readonly string[];
}

/**
 * Which identities are connected to which edge routers, as routers report it. Kept in memory: routers report everything again when they connect. A
 * router does not report its tunneler's identity, which is connected while the router is. Source: docs/protocol/fabric.md, "Identities".
 */
export class IdentityConnections {
  /** Router to the identities connected to it. */
  readonly #byRouter = new Map<string, Set<string>>();
  /** Connected routers whose tunneler is enabled. */
  readonly #tunnelers = new Set<string>();

  /** `isFullState`: no other identity is connected. Returns the identities that got their first connection, and those that lost their last. */
  report(routerId: string, isFullState: boolean, reports: readonly IdentityReport[]): StatusChanges {
    const known = this.#byRouter.get(routerId);
    const identities = isFullState || known === undefined ? new Set<string>() : known;
    const online: string[] = [];
    const left = new Set<string>();
    for (const { identityId, isConnected } of reports) {
      if (!isConnected) {
        if (identities.delete(identityId)) left.add(identityId);
      } else if (identities.size < MAX_IDENTITIES_PER_ROUTER && identityId.length <= MAX_ID_LENGTH) {
        if (!identities.has(identityId) && !this.#isOnline(identityId)) online.push(identityId);
        identities.add(identityId);
        left.delete(identityId);
      }
    }
    this.#byRouter.set(routerId, identities);
    if (known !== undefined && known !== identities) {
      for (const identityId of known) if (!identities.has(identityId)) left.add(identityId);
    }
    return { online, offline: [...left].filter((identityId) => !this.#isOnline(identityId)) };
  }

  /** Is the router connected, and its tunneler enabled? Returns what that changed for its identity. */
  tunneler(routerId: string, isConnected: boolean): StatusChanges {
    const wasOnline = this.#isOnline(routerId);
    if (isConnected) this.#tunnelers.add(routerId);
    else this.#tunnelers.delete(routerId);
    const isOnline = this.#isOnline(routerId);
    if (isOnline === wasOnline) return { online: [], offline: [] };
    return isOnline ? { online: [routerId], offline: [] } : { online: [], offline: [routerId] };
  }

  /** What the router said is not known to be true any more. Returns the identities that were connected to no other. */
  forget(routerId: string): string[] {
    const known = this.#byRouter.get(routerId);
    this.#byRouter.delete(routerId);
    return known === undefined ? [] : [...known].filter((identityId) => !this.#isOnline(identityId));
  }

  /** The identities connected to a router, as it has said. */
  of(routerId: string): ReadonlySet<string> {
    return this.#byRouter.get(routerId) ?? new Set();
  }

  /** `unknown` as long as no router has said anything. */
  state(identityId: string): "online" | "offline" | "unknown" {
    if (this.#isOnline(identityId)) return "online";
    return this.#byRouter.size === 0 ? "unknown" : "offline";
  }

  #isOnline(identityId: string): boolean {
    return this.#tunnelers.has(identityId) || this.#byRouter.values().some((identities) => identities.has(identityId));
  }
}
