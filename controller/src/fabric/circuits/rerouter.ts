import { Pool } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { Mesh } from "../links/mesh.ts";
import type { FabricOptions } from "../options.ts";
import type { Circuit, CircuitRoute } from "./circuit.ts";
import type { CircuitRegistry } from "./circuit-registry.ts";
import type { Path } from "./path.ts";
import type { RouteExchange } from "./route-exchange.ts";

export interface RerouterParts {
  readonly mesh: Mesh;
  readonly circuits: CircuitRegistry;
  readonly exchange: RouteExchange;
  /** True while any router that lost its control channel is expected back: there may be a path again in a moment. */
  readonly isAnyAwaited: () => boolean;
  readonly options: Pick<FabricOptions, "routeTimeoutMs" | "rerouteFraction" | "rerouteCap" | "minCostDelta">;
  readonly log: Logger;
}

/** How often one path is tried, and how many are tried in all, before a circuit is given up. */
const TRIES_OF_A_PATH = 2;
const TRIES = 8;
/** Circuits moved side by side: routers drop route messages that they cannot queue. */
const MOVES_AT_ONCE = 200;

/**
 * Moves circuits to other paths between the same two routers, when a link of theirs is gone or a much cheaper path has appeared. A circuit without a path
 * is removed, unless a router is only away for a moment: then it is looked at again when that one is back or given up.
 *
 * Source: docs/protocol/fabric.md, "Rerouting".
 */
export class Rerouter {
  readonly #parts: RerouterParts;
  /** Circuits being moved; true when their path was lost again meanwhile. */
  readonly #moving = new Map<string, boolean>();
  /** Circuits without a path, looked at again when a router is back or given up. */
  readonly #postponed = new Set<string>();

  readonly #lane: Pool;

  constructor(parts: RerouterParts) {
    this.#parts = parts;
    this.#lane = new Pool({
      concurrency: MOVES_AT_ONCE,
      onError: (err) => parts.log.error({ err }, "a circuit could not be moved"),
    });
  }

  /** A link may not carry circuits any more. */
  linkLost(linkId: string): void {
    for (const { id } of this.#parts.circuits.overLink(linkId)) this.#queue(id, (c) => c.route.links.includes(linkId));
  }

  /** A router cannot forward this circuit. */
  forwardFault(circuitId: string): void {
    this.#queue(circuitId);
  }

  /** A router is connected again, or given up: what waited for it is decided now. */
  routerSettled(): void {
    const postponed = [...this.#postponed];
    this.#postponed.clear();
    for (const circuitId of postponed) this.#queue(circuitId);
  }

  /** Moves the few dearest circuits to clearly cheaper paths. Called every cycle. */
  improve(): void {
    const { mesh, circuits, options, log } = this.#parts;
    const movable = circuits.all().map(({ id, route }) => ({ ...route, id }));
    const plan = planSmartReroutes(
      movable,
      (way) => mesh.costOf(way),
      (from, to) => mesh.paths().path(from, to),
      options,
    );
    for (const { circuit, path, gain } of plan) {
      if (this.#moving.has(circuit.id)) continue;
      log.info({ circuitId: circuit.id, gain, path: path.routers }, "a circuit moves to a cheaper path");
      this.#lane.offer(() => this.#alone(circuit.id, () => this.#improve(circuit.id, path)));
    }
  }

  /** `isNeeded` is asked again when it is the circuit's turn: it may have been moved since. */
  #queue(circuitId: string, isNeeded: (circuit: Circuit) => boolean = () => true): void {
    this.#lane.offer(async () => {
      const circuit = this.#parts.circuits.get(circuitId);
      if (circuit === undefined || !isNeeded(circuit)) return;
      await this.#alone(circuitId, () => this.#moveOrEnd(circuitId));
    });
  }

  /** Drops what waits. */
  close(): void {
    this.#lane.close();
  }

  /** One move of a circuit at a time; another reason to move it makes the one under way look for a path again. */
  async #alone(circuitId: string, move: () => Promise<void>): Promise<void> {
    if (this.#moving.has(circuitId)) {
      this.#moving.set(circuitId, true);
      return;
    }
    this.#moving.set(circuitId, false);
    try {
      await move();
    } finally {
      this.#moving.delete(circuitId);
    }
  }

  async #moveOrEnd(circuitId: string): Promise<void> {
    const { mesh, circuits, isAnyAwaited, log } = this.#parts;
    const failures = new Map<string, number>();
    for (let left = TRIES; left > 0; left--) {
      const circuit = circuits.get(circuitId);
      if (circuit === undefined) return;
      const { first, last } = endsOf(circuit);
      const path = mesh.paths().path(first, last);
      if (path === undefined) {
        if (isAnyAwaited()) {
          this.#postponed.add(circuitId);
          return;
        }
        break;
      }
      const outcome = await this.#move(circuit, path);
      if (outcome === "moved" || (outcome === "due again" && left === 1)) return;
      if (outcome === "due again") continue;
      const way = path.links.join(" ");
      const failed = (failures.get(way) ?? 0) + 1;
      if (failed === TRIES_OF_A_PATH) break;
      failures.set(way, failed);
    }
    log.info({ circuitId }, "a circuit has no path left and is removed");
    circuits.end(circuitId, true, "no path");
  }

  /** A path that is only cheaper must not cost the circuit: when it does not work, the old one is put back. */
  async #improve(circuitId: string, path: Path): Promise<void> {
    const { mesh, circuits } = this.#parts;
    const before = circuits.get(circuitId);
    if (before === undefined || (await this.#move(before, path)) === "moved") return;
    const after = circuits.get(circuitId);
    const isUsable = Number.isFinite(mesh.costOf(before.route));
    if (after !== undefined && isUsable && (await this.#move(after, before.route)) === "moved") return;
    await this.#moveOrEnd(circuitId);
  }

  /** `failed`: not every router of the path has taken the circuit; `due again`: they have, and there was another reason to move it meanwhile. */
  async #move(circuit: Circuit, path: Pick<Path, "routers" | "links">): Promise<"moved" | "failed" | "due again"> {
    const { circuits, exchange, options } = this.#parts;
    const route: CircuitRoute = { ...circuit.route, routers: path.routers, links: path.links };
    this.#moving.set(circuit.id, false);
    // Recorded first: from now on a fault on the new path concerns this circuit, one on the old path does not.
    circuits.moved({ ...circuit, route, updatedAt: new Date() });
    const isComplete = await exchange.moveAlong({
      circuitId: circuit.id,
      route,
      tags: circuit.tags,
      dialTimeoutMs: options.routeTimeoutMs,
      waitMs: options.routeTimeoutMs,
    });
    const isDueAgain = this.#moving.get(circuit.id) === true;
    if (circuits.get(circuit.id) === undefined) {
      // It ended meanwhile; the routers of the new path may have taken it since.
      for (const routerId of route.routers) exchange.unroute(routerId, circuit.id, true);
    }
    if (!isComplete) return "failed";
    return isDueAgain ? "due again" : "moved";
  }
}

function endsOf(circuit: Circuit): { first: string; last: string } {
  const first = circuit.route.routers[0];
  const last = circuit.route.routers.at(-1);
  if (first === undefined || last === undefined) throw new Error(`circuit ${circuit.id} has a path without routers`);
  return { first, last };
}

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
