/** One SDK channel of an identity at an edge router. */
export interface IdentityConnection {
  readonly connectedAt: Date;
  /** Addresses of the two ends of the connection as the router sees them. */
  readonly source: string;
  readonly destination: string;
}

export interface IdentityReport {
  readonly identityId: string;
  readonly isConnected: boolean;
  readonly connections: readonly IdentityConnection[];
}

/** Which identities are connected to which edge routers, as the routers report it. In memory: routers report everything again when they connect. Source: docs/protocol/fabric.md, "Identities". */
export class IdentityConnections {
  /** Router to the identities connected to it. */
  readonly #byRouter = new Map<string, Map<string, readonly IdentityConnection[]>>();

  /** `isFullState`: nobody but those named is connected. */
  report(routerId: string, isFullState: boolean, reports: readonly IdentityReport[]): void {
    const known = this.#byRouter.get(routerId);
    const identities = isFullState || known === undefined ? new Map<string, readonly IdentityConnection[]>() : known;
    for (const { identityId, isConnected, connections } of reports) {
      if (isConnected) identities.set(identityId, connections);
      else identities.delete(identityId);
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
