import type { Path } from "./path.ts";

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
  const byCost = circuits
    .filter((circuit) => circuit.links.length > 0)
    .map((circuit) => ({ circuit, cost: costOf(circuit) }))
    .sort((a, b) => b.cost - a.cost || (a.circuit.id < b.circuit.id ? -1 : 1));
  const candidates: RerouteCandidate<C>[] = [];
  for (const { circuit, cost } of byCost) {
    if (candidates.length >= limit) break;
    const first = circuit.routers[0];
    const last = circuit.routers.at(-1);
    if (first === undefined || last === undefined) continue;
    const path = cheapest(first, last);
    if (path === undefined || isSameWay(path, circuit)) continue;
    const gain = cost - costOf(path);
    if (gain >= policy.minCostDelta) candidates.push({ circuit, path, gain });
  }
  return candidates;
}

function isSameWay(a: Pick<Path, "routers" | "links">, b: ReroutableCircuit): boolean {
  return sameList(a.routers, b.routers) && sameList(a.links, b.links);
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((entry, index) => entry === b[index]);
}
