import { isDeepStrictEqual } from "node:util";
import { Pool } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { Mesh } from "../links/mesh.ts";
import type { FabricOptions } from "../options.ts";
import type { Circuit, CircuitRoute } from "./circuit.ts";
import type { CircuitRegistry } from "./circuit-registry.ts";
import type { CircuitPath } from "./path.ts";
import type { RouteExchange } from "./route-exchange.ts";

interface RerouterParts {
  readonly mesh: Mesh;
  readonly circuits: CircuitRegistry;
  readonly exchange: RouteExchange;
  /** True while any router that lost its control channel is expected back: there may be a path again in a moment. */
  readonly isAnyAwaited: () => boolean;
  /** False while another controller may have taken the circuits over: none is moved, or ended for want of a path. */
  readonly isSure: () => boolean;
  readonly options: Pick<FabricOptions, "routeTimeoutMs" | "rerouteFraction" | "rerouteCap" | "minCostDelta" | "now">;
  readonly log: Logger;
}

/** How often one path is tried, and how many are tried in all, before a circuit is given up. */
const MAX_TRIES_OF_A_PATH = 2;
const MAX_TRIES = 8;
/** Circuits moved side by side: routers drop route messages that they cannot queue. */
const MOVES_AT_ONCE = 200;

/**
 * Moves circuits to other paths between the same two routers, when a link of theirs is gone or a much cheaper path has appeared. Removes a circuit without
 * a path, unless a router may be back in a moment: then the circuit waits until it is back or given up. Source: docs/protocol/fabric.md, "Rerouting".
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

  /** A router is connected again, or given up, or the circuits are this controller's for sure: what waited for that is decided now. */
  routerSettled(): void {
    const postponed = [...this.#postponed];
    this.#postponed.clear();
    for (const circuitId of postponed) this.#queue(circuitId);
  }

  /** Moves the few dearest circuits to clearly cheaper paths. Called every cycle. */
  improve(): void {
    const { mesh, circuits, options, isSure, log } = this.#parts;
    if (!isSure()) return;
    const movable = circuits.all().map(({ id, route }) => ({ ...route, id }));
    const cheapest = (from: string, to: string) => mesh.paths().path(from, to);
    const plan = planSmartReroutes(movable, (way) => mesh.costOf(way), cheapest, options);
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
    const { mesh, circuits, isAnyAwaited, isSure, log } = this.#parts;
    const failures = new Map<string, number>();
    for (let left = MAX_TRIES; left > 0; left--) {
      const circuit = circuits.get(circuitId);
      if (circuit === undefined) return;
      if (!isSure()) return this.#postpone(circuitId);
      const { first, last } = endsOf(circuit);
      const path = mesh.paths().path(first, last);
      if (path === undefined) {
        if (isAnyAwaited()) return this.#postpone(circuitId);
        break;
      }
      const outcome = await this.#move(circuit, path);
      if (outcome === "moved" || (outcome === "due again" && left === 1)) return;
      if (outcome === "due again") continue;
      const way = path.links.join(" ");
      const failed = (failures.get(way) ?? 0) + 1;
      if (failed === MAX_TRIES_OF_A_PATH) break;
      failures.set(way, failed);
    }
    if (!isSure()) return this.#postpone(circuitId);
    log.info({ circuitId }, "a circuit has no path left and is removed");
    circuits.end(circuitId, true, "no path");
  }

  #postpone(circuitId: string): void {
    this.#postponed.add(circuitId);
  }

  /** A path that is only cheaper must not cost the circuit: when it does not work, the old one is put back. */
  async #improve(circuitId: string, path: CircuitPath): Promise<void> {
    const { mesh, circuits } = this.#parts;
    const before = circuits.get(circuitId);
    if (before === undefined || (await this.#move(before, path)) === "moved") return;
    const after = circuits.get(circuitId);
    const isUsable = Number.isFinite(mesh.costOf(before.route));
    if (after !== undefined && isUsable && (await this.#move(after, before.route)) === "moved") return;
    await this.#moveOrEnd(circuitId);
  }

  /** `failed`: not every router of the path has taken the circuit; `due again`: they have, and there was another reason to move it meanwhile. */
  async #move(
    circuit: Circuit,
    path: Pick<CircuitPath, "routers" | "links">,
  ): Promise<"moved" | "failed" | "due again"> {
    const { circuits, exchange, options } = this.#parts;
    const route: CircuitRoute = { ...circuit.route, routers: path.routers, links: path.links };
    this.#moving.set(circuit.id, false);
    // Recorded first: from now on a fault on the new path concerns this circuit, one on the old path does not.
    circuits.moved({ ...circuit, route, updatedAt: new Date(options.now()) });
    const { id: circuitId, tags, requestedAt } = circuit;
    const { routeTimeoutMs } = options;
    const timeouts = { dialTimeoutMs: routeTimeoutMs, waitMs: routeTimeoutMs };
    const isComplete = await exchange.moveAlong({ circuitId, requestedAt, route, tags, ...timeouts });
    const isDueAgain = this.#moving.get(circuitId) === true;
    if (circuits.get(circuitId) === undefined) {
      // It ended meanwhile; the routers of the new path may have taken it since.
      for (const routerId of route.routers) exchange.unroute(routerId, circuitId, true, requestedAt);
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

interface ReroutableCircuit extends Pick<CircuitPath, "routers" | "links"> {
  readonly id: string;
}

/**
 * The most expensive circuits that another path would make cheaper by at least `minCostDelta`; at most max(1, fraction of all), and never more than the cap.
 * Pure. `costOf` sums links and all routers of a path; `gain` is how much cheaper the new path is. Source: docs/protocol/fabric.md, "Rerouting".
 */
export function planSmartReroutes(
  circuits: readonly ReroutableCircuit[],
  costOf: (path: Pick<CircuitPath, "routers" | "links">) => number,
  cheapest: (from: string, to: string) => CircuitPath | undefined,
  policy: Pick<FabricOptions, "rerouteFraction" | "rerouteCap" | "minCostDelta">,
): { readonly circuit: ReroutableCircuit; readonly path: CircuitPath; readonly gain: number }[] {
  const limit = Math.min(policy.rerouteCap, Math.max(1, Math.floor(policy.rerouteFraction * circuits.length)));
  // Many circuits go the same way: each way is looked at once.
  const ways = Map.groupBy(
    circuits.filter(({ links }) => links.length > 0),
    ({ routers, links }) => `${routers[0]} ${links.join(" ")}`,
  );
  const byCost = [...ways.values()]
    .flatMap((alike) => alike.slice(0, 1).map((way) => ({ alike, way, cost: costOf(way) })))
    .sort((a, b) => b.cost - a.cost || (a.way.id < b.way.id ? -1 : 1));
  const candidates: ReturnType<typeof planSmartReroutes> = [];
  for (const { alike, way, cost } of byCost) {
    if (candidates.length >= limit) break;
    const first = way.routers[0];
    const last = way.routers.at(-1);
    if (first === undefined || last === undefined) continue;
    const path = cheapest(first, last);
    if (path === undefined) continue;
    if (isDeepStrictEqual([path.routers, path.links], [way.routers, way.links])) continue;
    const gain = cost - costOf(path);
    if (gain < policy.minCostDelta) continue;
    for (const circuit of alike.slice(0, limit - candidates.length)) candidates.push({ circuit, path, gain });
  }
  return candidates;
}
