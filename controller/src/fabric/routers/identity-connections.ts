/** Identities one router may report: memory that a router can claim has a bound. */
const MAX_IDENTITIES_PER_ROUTER = 100_000;

export interface IdentityReport {
  readonly identityId: string;
  readonly isConnected: boolean;
}

/** Which identities are connected to which edge routers, as the routers report it. In memory: routers report everything again when they connect. Source: docs/protocol/fabric.md, "Identities". */
export class IdentityConnections {
  /** Router to the identities connected to it. */
  readonly #byRouter = new Map<string, Set<string>>();

  /** `isFullState`: nobody but those named is connected. */
  report(routerId: string, isFullState: boolean, reports: readonly IdentityReport[]): void {
    const known = this.#byRouter.get(routerId);
    const identities = isFullState || known === undefined ? new Set<string>() : known;
    for (const { identityId, isConnected } of reports) {
      if (!isConnected) identities.delete(identityId);
      else if (identities.size < MAX_IDENTITIES_PER_ROUTER) identities.add(identityId);
    }
    this.#byRouter.set(routerId, identities);
  }

  /** What the router said is not known to be true any more. */
  forget(routerId: string): void {
    this.#byRouter.delete(routerId);
  }

  /** `unknown` as long as no router has said anything. */
  state(identityId: string): "online" | "offline" | "unknown" {
    if (this.#byRouter.size === 0) return "unknown";
    for (const identities of this.#byRouter.values()) if (identities.has(identityId)) return "online";
    return "offline";
  }
}
