import { pause } from "@sallyport/async";
import { type CircuitPath, PathFinder } from "../circuits/path.ts";
import type { FabricOptions } from "../options.ts";
import type { LinkSettings } from "../replicas.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import { isUsable, LinkTable, linkCost } from "./link-table.ts";

/** The connected routers and the links between them; keeps one snapshot for path finding and renews it after a change. Source: docs/protocol/fabric.md, "Paths". */
export class Mesh {
  readonly links: LinkTable;
  readonly #routers = new Map<string, RouterConnection>();
  readonly #minRouterCost: number;
  #finder: PathFinder | undefined;
  /** Resolved at the next change; made when a caller waits for it. */
  #next: PromiseWithResolvers<void> | undefined;

  constructor(options: Pick<FabricOptions, "initialLinkLatencyMs" | "minRouterCost">, settings: LinkSettings) {
    const changed = () => this.changed();
    this.links = new LinkTable(options.initialLinkLatencyMs, changed, (id) => settings.of(id));
    this.#minRouterCost = options.minRouterCost;
  }

  router(id: string): RouterConnection | undefined {
    return this.#routers.get(id);
  }

  routers(): RouterConnection[] {
    return [...this.#routers.values()];
  }

  /** Makes this the router's connection; returns the one it replaces. */
  connected(connection: RouterConnection): RouterConnection | undefined {
    const replaced = this.#routers.get(connection.id);
    this.#routers.set(connection.id, connection);
    this.changed();
    return replaced;
  }

  /** False when another connection has taken its place already. */
  disconnected(connection: RouterConnection): boolean {
    if (this.#routers.get(connection.id) !== connection) return false;
    this.#routers.delete(connection.id);
    this.changed();
    return true;
  }

  isCurrent(connection: RouterConnection): boolean {
    return this.#routers.get(connection.id) === connection;
  }

  /** Routers, their costs or links are not what they were. */
  changed(): void {
    this.#finder = undefined;
    this.#next?.resolve();
    this.#next = undefined;
  }

  /** Resolves when anything of the mesh has changed, at the latest after `ms`. What changes in one go wakes all who wait once. */
  async nextChange(ms: number): Promise<void> {
    this.#next ??= Promise.withResolvers();
    const changed = new AbortController();
    await Promise.race([this.#next.promise, pause(ms, changed.signal)]);
    changed.abort();
  }

  /** The mesh as it is now. */
  paths(): PathFinder {
    this.#finder ??= new PathFinder(
      this.routers().map((r) => ({ id: r.id, cost: r.record.cost, noTraversal: r.record.noTraversal })),
      this.links.usable(),
      this.#minRouterCost,
    );
    return this.#finder;
  }

  /** Present cost of a way: all links and all routers, the first included. A link that is gone makes it infinite. */
  costOf(way: Pick<CircuitPath, "routers" | "links">): number {
    const links = way.links.reduce((sum, id) => {
      const link = this.links.get(id);
      return sum + (link !== undefined && isUsable(link) ? linkCost(link) : Number.POSITIVE_INFINITY);
    }, 0);
    return way.routers.reduce(
      (sum, id) => sum + Math.max(this.#routers.get(id)?.record.cost ?? 0, this.#minRouterCost),
      links,
    );
  }
}
