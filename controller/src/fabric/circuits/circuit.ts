import type { EndAddresses, PeerData } from "./peer-data.ts";

/** What allows a circuit: a session, an access token, or the identity itself for what a router dials on its own. */
export type CircuitGrant =
  | { readonly kind: "session"; readonly sessionId: string }
  | {
      readonly kind: "token";
      readonly apiSessionId: string;
      readonly identityId: string;
      readonly issuedAt: Date;
    }
  | { readonly kind: "identity" };

/** A circuit's way through the mesh. `links` has one entry less than `routers`. */
export interface CircuitRoute {
  readonly routers: readonly string[];
  readonly links: readonly string[];
  /** Xgress address of the initiating end, on the first router. */
  readonly ingressId: string;
  /** Xgress address of the terminating end, on the last router. */
  readonly egressId: string;
}

/** An end-to-end connection through the fabric. Immutable; a reroute replaces it under the same id. */
export interface Circuit {
  readonly id: string;
  readonly serviceId: string;
  readonly terminatorId: string;
  /** Identity that dialed. */
  readonly clientId: string;
  /** It ends with this. */
  readonly grant: CircuitGrant;
  /** Identity that hosts; may be empty. */
  readonly hostId: string;
  readonly route: CircuitRoute;
  readonly addresses: EndAddresses;
  /** When it was asked for, a time of `performance.now()`: its messages take the connections of routers that were there then. */
  readonly requestedAt: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** What the routers know it by: `serviceId`, `clientId`, `hostId`. */
  readonly tags: Readonly<Record<string, string>>;
  /** For the initiating router: static peer data of the terminator, overwritten by what the terminating side answered. */
  readonly peerData: PeerData;
}

/** A circuit as it is shown to others than the process that made it. */
export type CircuitState = Omit<Circuit, "requestedAt" | "peerData">;

/** True when the router is the first or the last of the circuit's path. */
export function isEnd(circuit: Circuit, routerId: string): boolean {
  return circuit.route.routers[0] === routerId || circuit.route.routers.at(-1) === routerId;
}
