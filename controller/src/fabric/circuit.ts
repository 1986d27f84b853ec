import type { EndAddresses, PeerData } from "./peer-data.ts";
import type { CircuitRoute } from "./route-plan.ts";

/** An end-to-end connection through the fabric. Immutable; a reroute replaces it under the same id. */
export interface Circuit {
  readonly id: string;
  readonly serviceId: string;
  readonly terminatorId: string;
  /** Identity that dialed; the router's id for a circuit of a plain listener. */
  readonly clientId: string;
  /** Identity that hosts; may be empty. */
  readonly hostId: string;
  readonly route: CircuitRoute;
  readonly addresses: EndAddresses;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** What the routers know it by: `serviceId`, `clientId`, `hostId`. */
  readonly tags: Readonly<Record<string, string>>;
  /** For the initiating router: static peer data of the terminator, overwritten by what the terminating side answered. */
  readonly peerData: PeerData;
}

/** All circuits that are up. */
export class CircuitTable {
  readonly #circuits = new Map<string, Circuit>();

  get size(): number {
    return this.#circuits.size;
  }

  get(id: string): Circuit | undefined {
    return this.#circuits.get(id);
  }

  all(): Circuit[] {
    return [...this.#circuits.values()];
  }

  /** Adds a circuit, or replaces the one with its id. */
  put(circuit: Circuit): void {
    this.#circuits.set(circuit.id, circuit);
  }

  remove(id: string): Circuit | undefined {
    const circuit = this.#circuits.get(id);
    this.#circuits.delete(id);
    return circuit;
  }

  overLink(linkId: string): Circuit[] {
    return this.all().filter((c) => c.route.links.includes(linkId));
  }

  /** Circuits that begin or end at a router. */
  endingAt(routerId: string): Circuit[] {
    return this.all().filter((c) => c.route.routers[0] === routerId || c.route.routers.at(-1) === routerId);
  }

  ofService(serviceId: string): Circuit[] {
    return this.all().filter((c) => c.serviceId === serviceId);
  }
}
