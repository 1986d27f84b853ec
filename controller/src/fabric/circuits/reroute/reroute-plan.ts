import type { Path } from "../path.ts";

/**
 * Which circuits are worth moving. Pure.
 *
 * Source: docs/protocol/fabric.md, "Rerouting".
 */

export interface ReroutableCircuit {
  readonly id: string;
  readonly routers: readonly string[];
  readonly links: readonly string[];
}

export interface RerouteCandidate<C extends ReroutableCircuit> {
  readonly circuit: C;
  readonly path: Path;
  /** How much cheaper the new path is. */
  readonly gain: number;
}

export interface ReroutePolicy {
  readonly rerouteFraction: number;
  readonly rerouteCap: number;
  readonly minCostDelta: number;
}

/**
 * The most expensive circuits that another path would make cheaper by at least `minCostDelta`; at most max(1, fraction of all), and never more than the cap.
 * `costOf` sums links and all routers of a path.
 */
export function planSmartReroutes<C extends ReroutableCircuit>(
  circuits: readonly C[],
  costOf: (path: Pick<ReroutableCircuit, "routers" | "links">) => number,
  cheapest: (from: string, to: string) => Path | undefined,
  policy: ReroutePolicy,
): RerouteCandidate<C>[] {
  const limit = Math.min(policy.rerouteCap, Math.max(1, Math.floor(policy.rerouteFraction * circuits.length)));
  // Many circuits go the same way: each way is looked at once.
  const ways = new Map<string, { readonly circuits: C[]; readonly way: C }>();
  for (const circuit of circuits) {
    if (circuit.links.length === 0) continue;
    const key = `${circuit.routers[0]} ${circuit.links.join(" ")}`;
    const known = ways.get(key);
    if (known === undefined) ways.set(key, { circuits: [circuit], way: circuit });
    else known.circuits.push(circuit);
  }
  const byCost = [...ways.values()]
    .map((group) => ({ ...group, cost: costOf(group.way) }))
    .sort((a, b) => b.cost - a.cost || (a.way.id < b.way.id ? -1 : 1));
  const candidates: RerouteCandidate<C>[] = [];
  for (const { circuits: alike, way, cost } of byCost) {
    if (candidates.length >= limit) break;
    const first = way.routers[0];
    const last = way.routers.at(-1);
    if (first === undefined || last === undefined) continue;
    const path = cheapest(first, last);
    if (path === undefined || isSameWay(path, way)) continue;
    const gain = cost - costOf(path);
    if (gain < policy.minCostDelta) continue;
    for (const circuit of alike.slice(0, limit - candidates.length)) candidates.push({ circuit, path, gain });
  }
  return candidates;
}

function isSameWay(a: Pick<Path, "routers" | "links">, b: ReroutableCircuit): boolean {
  return sameList(a.routers, b.routers) && sameList(a.links, b.links);
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((entry, index) => entry === b[index]);
}
