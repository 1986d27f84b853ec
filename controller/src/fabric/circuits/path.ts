/** A connected router. */
export interface PathRouter {
  readonly id: string;
  readonly cost: number;
  /** True: only first or last of a path. */
  readonly noTraversal: boolean;
}

/** A usable link; it carries traffic both ways. */
export interface PathLink {
  readonly id: string;
  readonly source: string;
  readonly destination: string;
  readonly cost: number;
}

export interface CircuitPath {
  /** Router ids from first to last; at least one. */
  readonly routers: readonly string[];
  /** Link ids, one less than routers. */
  readonly links: readonly string[];
  /** Sum over links and over routers entered (the first is not counted). */
  readonly cost: number;
}

interface PathEdge {
  readonly link: string;
  readonly to: string;
  /** Cheapest link to `to` plus the cost of entering it. */
  readonly cost: number;
}

interface Reached {
  readonly cost: number;
  readonly via?: { readonly from: string; readonly link: string };
}

/**
 * Finds the cheapest way from one router to another over usable links, in a snapshot of the mesh. Keeps a tree of cheapest paths for each starting router, so
 * asking again costs nothing. Pure. Source: docs/protocol/fabric.md, "Paths".
 */
export class PathFinder {
  readonly #routers: ReadonlyMap<string, PathRouter>;
  readonly #edges = new Map<string, Map<string, PathEdge>>();
  readonly #trees = new Map<string, ReadonlyMap<string, Reached>>();

  /** Links to routers that are not among `routers` are left out. */
  constructor(routers: Iterable<PathRouter>, links: Iterable<PathLink>, minRouterCost: number) {
    this.#routers = new Map([...routers].map((r) => [r.id, r]));
    for (const link of links) {
      const source = this.#routers.get(link.source);
      const destination = this.#routers.get(link.destination);
      if (source === undefined || destination === undefined || source === destination) continue;
      this.#addEdge(source, destination, link, minRouterCost);
      this.#addEdge(destination, source, link, minRouterCost);
    }
  }

  /** Cheapest path, or undefined when there is none. */
  path(from: string, to: string): CircuitPath | undefined {
    const tree = this.#tree(from);
    const end = tree.get(to);
    if (end === undefined) return undefined;
    const routers = [to];
    const links: string[] = [];
    for (let at = end; at.via !== undefined; ) {
      routers.push(at.via.from);
      links.push(at.via.link);
      const previous = tree.get(at.via.from);
      if (previous === undefined) return undefined;
      at = previous;
    }
    return { routers: routers.reverse(), links: links.reverse(), cost: end.cost };
  }

  /** Cost of the cheapest path; undefined when there is none. */
  cost(from: string, to: string): number | undefined {
    return this.#tree(from).get(to)?.cost;
  }

  #addEdge(from: PathRouter, to: PathRouter, link: PathLink, minRouterCost: number): void {
    const edges = this.#edges.getOrInsertComputed(from.id, () => new Map());
    const cost = link.cost + Math.max(to.cost, minRouterCost);
    const known = edges.get(to.id);
    if (known === undefined || cost < known.cost || (cost === known.cost && link.id < known.link)) {
      edges.set(to.id, { link: link.id, to: to.id, cost });
    }
  }

  #tree(from: string): ReadonlyMap<string, Reached> {
    return this.#trees.getOrInsertComputed(from, () => (this.#routers.has(from) ? this.#search(from) : new Map()));
  }

  /** Dijkstra's search. The frontier is scanned for its minimum: meshes have hundreds of routers at most, and a tree is made once per snapshot. */
  #search(from: string): ReadonlyMap<string, Reached> {
    const done = new Map<string, Reached>();
    const frontier = new Map<string, Reached>([[from, { cost: 0 }]]);
    for (;;) {
      let nearest: string | undefined;
      let reached: Reached | undefined;
      for (const [id, candidate] of frontier) {
        if (reached === undefined || candidate.cost < reached.cost) {
          nearest = id;
          reached = candidate;
        }
      }
      if (nearest === undefined || reached === undefined) return done;
      frontier.delete(nearest);
      done.set(nearest, reached);
      if (nearest !== from && this.#routers.get(nearest)?.noTraversal === true) continue;
      for (const edge of this.#edges.get(nearest)?.values() ?? []) {
        if (done.has(edge.to)) continue;
        const cost = reached.cost + edge.cost;
        const known = frontier.get(edge.to);
        if (known === undefined || cost < known.cost) {
          frontier.set(edge.to, { cost, via: { from: nearest, link: edge.link } });
        }
      }
    }
  }
}
