import { mapLimit, Pool } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { Circuit } from "../circuits/circuit.ts";
import type { CircuitRegistry } from "../circuits/circuit-registry.ts";
import type { Rerouter } from "../circuits/rerouter.ts";
import type { RouteExchange } from "../circuits/route-exchange.ts";
import type { Mesh } from "../links/mesh.ts";
import type { FabricOptions } from "../options.ts";
import type { FabricReplicas } from "../replicas.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import type { CircuitAdoption } from "./circuit-adoption.ts";

/** Routers asked side by side: their answers are large. */
const ASKED_AT_ONCE = 20;
/** Circuits that routers are told of side by side: they drop what they cannot queue. */
const TOLD_AT_ONCE = 200;
const TRY_AGAIN_MS = 1_000;
/** How often a router that is connected may be asked without success. */
const MAX_TRIES = 10;

interface CircuitSuccessionParts {
  readonly replicas: FabricReplicas;
  readonly mesh: Mesh;
  readonly adoption: CircuitAdoption;
  readonly circuits: CircuitRegistry;
  readonly exchange: Pick<RouteExchange, "takeOver">;
  readonly rerouter: Pick<Rerouter, "forwardFault">;
  readonly options: Pick<FabricOptions, "routeTimeoutMs">;
  readonly log: Logger;
}

/**
 * Takes over the circuits of controllers that are gone: asks all routers for them, has the routers file them under this controller, and moves those whose links
 * broke meanwhile. Source: docs/protocol/replicas.md, "Circuits".
 */
export class CircuitSuccession {
  readonly #parts: CircuitSuccessionParts;
  readonly #lane: Pool;
  /** Routers of circuits that were taken over which have not heard of it. */
  readonly #untold = new Map<string, Set<string>>();
  readonly #stopping: (() => void)[];
  #isClosed = false;

  constructor(parts: CircuitSuccessionParts) {
    this.#parts = parts;
    const onError = (err: unknown) =>
      parts.log.error({ err }, "routers could not be told that a circuit was taken over");
    this.#lane = new Pool({ concurrency: TOLD_AT_ONCE, onError });
    this.#stopping = [
      parts.replicas.onSuccession(() => void this.#askAll(parts.mesh.routers(), MAX_TRIES)),
      parts.adoption.onSucceeded((adopted) => this.#succeeded(adopted)),
    ];
  }

  /** A router is connected again. */
  connected(router: RouterConnection): void {
    const circuitIds = this.#untold.get(router.id);
    this.#untold.delete(router.id);
    for (const id of circuitIds ?? []) this.#lane.offer(() => this.#tell(id, router.id));
  }

  close(): void {
    this.#isClosed = true;
    for (const stop of this.#stopping) stop();
    this.#lane.close();
  }

  async #askAll(routers: readonly RouterConnection[], tries: number): Promise<void> {
    const { adoption, mesh, replicas } = this.#parts;
    const left: RouterConnection[] = [];
    await mapLimit(routers, ASKED_AT_ONCE, async (router) => {
      if (!(await adoption.succeed(router)) && mesh.isCurrent(router)) left.push(router);
    });
    if (left.length === 0 || tries <= 1 || this.#isClosed) return;
    setTimeout(() => {
      if (!this.#isClosed && replicas.isLeader) void this.#askAll(left, tries - 1);
    }, TRY_AGAIN_MS).unref();
  }

  #succeeded(adopted: readonly Circuit[]): void {
    for (const { id, route } of adopted) {
      this.#lane.offer(async () => {
        await Promise.all(route.routers.map((routerId) => this.#tell(id, routerId)));
        const circuit = this.#parts.circuits.get(id);
        if (circuit === undefined) return;
        if (!Number.isFinite(this.#parts.mesh.costOf(circuit.route))) this.#parts.rerouter.forwardFault(id);
      });
    }
  }

  async #tell(circuitId: string, routerId: string): Promise<void> {
    const { circuits, exchange, mesh, options, log } = this.#parts;
    const circuit = circuits.get(circuitId);
    if (circuit === undefined) return;
    const { requestedAt, route, tags } = circuit;
    const timeouts = { dialTimeoutMs: options.routeTimeoutMs, waitMs: options.routeTimeoutMs };
    const before = mesh.router(routerId);
    const failure = await exchange.takeOver(routerId, { circuitId, requestedAt, route, tags, ...timeouts });
    if (failure === undefined || circuits.get(circuitId) === undefined) return;
    log.info({ circuitId, routerId, failure }, "a router did not file a circuit under this controller");
    const isLost = before === undefined || !mesh.isCurrent(before);
    if (isLost) this.#untold.getOrInsertComputed(routerId, () => new Set()).add(circuitId);
    // The router has lost the circuit: at an end it is over, elsewhere the circuit needs a way again.
    else if (circuit.route.routers[0] === routerId || circuit.route.routers.at(-1) === routerId) {
      circuits.end(circuitId, true, "an end closed");
    } else this.#parts.rerouter.forwardFault(circuitId);
  }
}
