import type { EmitEvent } from "../fabric-events.ts";
import { type Circuit, isEnd } from "./circuit.ts";
import type { DynamicCosts } from "./costs.ts";
import type { RouteExchange } from "./route-exchange.ts";

/** All circuits that are up, and how one ends. Source: docs/protocol/fabric.md, "Circuits". */
export class CircuitRegistry {
  readonly #circuits = new Map<string, Circuit>();
  /** Ids of the circuits of each session. */
  readonly #bySession = new Map<string, Set<string>>();
  /** The same of API sessions, whose circuits need no session. */
  readonly #byApiSession = new Map<string, Set<string>>();
  readonly #exchange: Pick<RouteExchange, "unroute">;
  readonly #costs: DynamicCosts;
  readonly #emit: EmitEvent;

  constructor(exchange: Pick<RouteExchange, "unroute">, costs: DynamicCosts, emit: EmitEvent) {
    this.#exchange = exchange;
    this.#costs = costs;
    this.#emit = emit;
  }

  get size(): number {
    return this.#circuits.size;
  }

  get(id: string): Circuit | undefined {
    return this.#circuits.get(id);
  }

  all(): Circuit[] {
    return [...this.#circuits.values()];
  }

  /** Is the circuit up, with the router on its path? */
  isCarriedBy(id: string, routerId: string): boolean {
    return this.#circuits.get(id)?.route.routers.includes(routerId) ?? false;
  }

  overLink(linkId: string): Circuit[] {
    return this.all().filter((c) => c.route.links.includes(linkId));
  }

  /** Circuits that begin or end at a router. */
  endingAt(routerId: string): Circuit[] {
    return this.all().filter((c) => isEnd(c, routerId));
  }

  /** Sessions that have circuits. */
  sessionIds(): string[] {
    return [...this.#bySession.keys()];
  }

  ofSession(sessionId: string): string[] {
    return [...(this.#bySession.get(sessionId) ?? [])];
  }

  /** API sessions that have circuits without a session. */
  apiSessionIds(): string[] {
    return [...this.#byApiSession.keys()];
  }

  ofApiSession(apiSessionId: string): string[] {
    return [...(this.#byApiSession.get(apiSessionId) ?? [])];
  }

  ofService(serviceId: string): Circuit[] {
    return this.all().filter((c) => c.serviceId === serviceId);
  }

  /** `timespanMs`: how long its making took; for events. */
  opened(circuit: Circuit, timespanMs = 0): void {
    this.adopted(circuit);
    this.#emit({ kind: "circuit-created", circuit, timespanMs });
  }

  /** A circuit that an earlier process announced: listeners had its event then. */
  adopted(circuit: Circuit): void {
    this.#circuits.set(circuit.id, circuit);
    const owner = this.#ownerOf(circuit);
    owner?.circuits.getOrInsertComputed(owner.id, () => new Set()).add(circuit.id);
    this.#costs.circuitOpened(circuit.terminatorId);
  }

  moved(circuit: Circuit): void {
    if (!this.#circuits.has(circuit.id)) return;
    this.#circuits.set(circuit.id, circuit);
    this.#emit({ kind: "circuit-rerouted", circuit });
  }

  /**
   * Ends a circuit; false when there is none of this id. `now`: routers drop it at once; otherwise when its traffic has run dry, which is how a circuit
   * that was closed by one of its ends is taken down. `reason` is for events.
   */
  end(id: string, now: boolean, reason: string): boolean {
    const circuit = this.#take(id);
    if (circuit === undefined) return false;
    for (const routerId of circuit.route.routers) this.#exchange.unroute(routerId, id, now, circuit.requestedAt);
    this.#emit({ kind: "circuit-removed", circuit, reason });
    return true;
  }

  /** Another controller has the circuit now: it goes on. */
  forget(id: string): void {
    this.#take(id);
  }

  #take(id: string): Circuit | undefined {
    const circuit = this.#circuits.get(id);
    if (circuit === undefined) return undefined;
    this.#circuits.delete(id);
    const owner = this.#ownerOf(circuit);
    const ids = owner?.circuits.get(owner.id);
    ids?.delete(id);
    if (ids?.size === 0) owner?.circuits.delete(owner.id);
    this.#costs.circuitClosed(circuit.terminatorId);
    return circuit;
  }

  /** What the circuit ends with, if that is a session. */
  #ownerOf({ grant }: Circuit): { readonly circuits: Map<string, Set<string>>; readonly id: string } | undefined {
    if (grant.kind === "session") return { circuits: this.#bySession, id: grant.sessionId };
    if (grant.kind === "token") return { circuits: this.#byApiSession, id: grant.apiSessionId };
    return undefined;
  }
}
