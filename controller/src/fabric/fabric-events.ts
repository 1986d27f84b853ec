import type { Circuit } from "./circuits/circuit.ts";
import type { Link } from "./links/link-table.ts";

/** Why a circuit could not be made; the names are those of circuit events. */
export const CircuitFailureCause = {
  InvalidService: "INVALID_SERVICE",
  NoTerminators: "NO_TERMINATORS",
  NoOnlineTerminators: "NO_ONLINE_TERMINATORS",
  NoPath: "NO_PATH",
  PathMissingLink: "PATH_MISSING_LINK",
  InvalidStrategy: "INVALID_STRATEGY",
  StrategyError: "STRATEGY_ERR",
  RouterResponseTimeout: "ROUTER_RESPONSE_TIMEOUT",
  RouterGeneric: "ROUTER_ERR_GENERIC",
  RouterInvalidTerminator: "ROUTER_ERR_INVALID_TERMINATOR",
  RouterMisconfiguredTerminator: "ROUTER_ERR_MISCONFIGURED_TERMINATOR",
  RouterDialTimedOut: "ROUTER_ERR_DIAL_TIMED_OUT",
  RouterConnectionRefused: "ROUTER_ERR_CONN_REFUSED",
} as const;
export type CircuitFailureCause = (typeof CircuitFailureCause)[keyof typeof CircuitFailureCause];

/** What happens in the fabric. */
export type FabricEvent =
  | { readonly kind: "router-online" | "router-offline"; readonly routerId: string }
  | { readonly kind: "circuit-created" | "circuit-rerouted"; readonly circuit: Circuit }
  | { readonly kind: "circuit-removed"; readonly circuit: Circuit; readonly reason: string }
  | {
      readonly kind: "circuit-failed";
      readonly circuitId: string;
      readonly serviceId: string;
      readonly clientId: string;
      readonly cause: CircuitFailureCause;
      readonly message: string;
    }
  | { readonly kind: "link-connected" | "link-faulted"; readonly link: Link };

/** What a log line says about an event. */
export function eventFields(event: FabricEvent): object {
  switch (event.kind) {
    case "router-online":
    case "router-offline":
      return { routerId: event.routerId };
    case "circuit-created":
    case "circuit-rerouted":
    case "circuit-removed": {
      const { id, serviceId, terminatorId, clientId, route } = event.circuit;
      const reason = event.kind === "circuit-removed" ? { reason: event.reason } : {};
      return { circuitId: id, serviceId, terminatorId, clientId, path: route.routers, ...reason };
    }
    case "circuit-failed": {
      const { circuitId, serviceId, clientId, cause, message } = event;
      return { circuitId, serviceId, clientId, cause, reason: message };
    }
    case "link-connected":
    case "link-faulted":
      return { linkId: event.link.id, source: event.link.source, destination: event.link.destination };
  }
}

/** Where a part of the fabric says what has happened; never throws. */
export type EmitEvent = (event: FabricEvent) => void;
