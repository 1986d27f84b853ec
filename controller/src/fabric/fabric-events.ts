import type { metricsPb, ObservedMessage } from "@sallyport/wire";
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
  RouterRejectedByApplication: "ROUTER_ERR_REJECTED_BY_APPLICATION",
  RouterDnsFailed: "ROUTER_ERR_DNS_RESOLUTION_FAILED",
  RouterPortNotAllowed: "ROUTER_ERR_PORT_NOT_ALLOWED",
  RouterInvalidLinkDestination: "ROUTER_ERR_INVALID_LINK_DESTINATION",
  RouterNoResources: "ROUTER_ERR_RESOURCES_NOT_AVAILABLE",
} as const;
export type CircuitFailureCause = (typeof CircuitFailureCause)[keyof typeof CircuitFailureCause];

/** One connection of an SDK to an edge router. */
interface IdentityConnection {
  readonly identityId: string;
  readonly at: Date;
  readonly sourceAddress: string;
  readonly destinationAddress: string;
}

/** What a router wants an operator to see. */
export interface RouterAlert {
  readonly at: Date;
  readonly sourceType: string;
  readonly sourceId: string;
  readonly severity: string;
  readonly message: string;
  readonly details: readonly string[];
  /** Ids by type of the entity. */
  readonly relatedEntities: Readonly<Record<string, string>>;
}

/** What happens in the fabric. */
export type FabricEvent =
  | {
      readonly kind: "router-online";
      readonly routerId: string;
      /** `ip:port` of the router's end and of the controller's. */
      readonly sourceAddress: string;
      readonly destinationAddress: string;
    }
  | { readonly kind: "router-offline"; readonly routerId: string }
  | {
      readonly kind: "circuit-created";
      readonly circuit: Circuit;
      /** From the request until it was up. */
      readonly timespanMs: number;
    }
  | { readonly kind: "circuit-rerouted"; readonly circuit: Circuit }
  | { readonly kind: "circuit-removed"; readonly circuit: Circuit; readonly reason: string }
  | {
      readonly kind: "circuit-failed";
      readonly circuitId: string;
      readonly serviceId: string;
      readonly clientId: string;
      /** Of the last attempt; empty when none was made. */
      readonly terminatorId: string;
      readonly instanceId: string;
      /** Where the circuit was to begin. */
      readonly ingressRouterId: string;
      readonly timespanMs: number;
      readonly cause: CircuitFailureCause;
      readonly message: string;
    }
  | {
      /** The service requires encryption, and an end takes no part in it. */
      readonly kind: "encryption-missing";
      readonly serviceId: string;
      readonly clientId: string;
      readonly ingressRouterId: string;
      readonly message: string;
    }
  | {
      /** One attempt to reach a terminator failed; others may follow. */
      readonly kind: "dial-failed";
      readonly circuitId: string;
      readonly serviceId: string;
      readonly terminatorId: string;
      readonly cause: CircuitFailureCause;
    }
  | {
      /** A host says how a check of what it hosts went. What follows from it (cost, precedence) it asks for by itself. */
      readonly kind: "health-check";
      readonly routerId: string;
      readonly serviceId: string;
      readonly terminatorId: string;
      readonly hasPassed: boolean;
    }
  | {
      readonly kind: "link-connected" | "link-faulted" | "link-duplicate" | "link-known" | "link-connections-changed";
      readonly link: Link;
    }
  | {
      /** `unknown`: the only router they were connected to has gone. */
      readonly kind: "identities-changed";
      readonly routerId: string;
      readonly online: readonly string[];
      readonly offline: readonly string[];
      readonly unknown: readonly string[];
    }
  | {
      readonly kind: "identities-connected";
      readonly routerId: string;
      readonly connections: readonly IdentityConnection[];
    }
  | { readonly kind: "router-alert"; readonly routerId: string; readonly alert: RouterAlert }
  | { readonly kind: "router-metrics"; readonly routerId: string; readonly metrics: metricsPb.MetricsMessage }
  | { readonly kind: "router-trace"; readonly routerId: string; readonly body: Buffer }
  | { readonly kind: "control-message"; readonly routerId: string; readonly message: ObservedMessage };

/** What a log line says about an event. */
export function eventFields(event: FabricEvent): object {
  switch (event.kind) {
    case "router-online":
    case "router-offline":
    case "router-alert":
    case "router-metrics":
    case "router-trace":
    case "control-message":
      return { routerId: event.routerId };
    case "identities-changed": {
      const { routerId, online, offline, unknown } = event;
      return { routerId, online: online.length, offline: offline.length, unknown: unknown.length };
    }
    case "identities-connected":
      return { routerId: event.routerId, connections: event.connections.length };
    case "dial-failed":
    case "encryption-missing":
    case "health-check": {
      const { kind: _, ...fields } = event;
      return fields;
    }
    case "circuit-created":
    case "circuit-rerouted":
    case "circuit-removed": {
      const { id, serviceId, terminatorId, clientId, route } = event.circuit;
      const fields = { circuitId: id, serviceId, terminatorId, clientId, path: route.routers };
      return event.kind === "circuit-removed" ? { ...fields, reason: event.reason } : fields;
    }
    case "circuit-failed": {
      const { circuitId, serviceId, clientId, cause, message } = event;
      return { circuitId, serviceId, clientId, cause, reason: message };
    }
    default:
      return { linkId: event.link.id, source: event.link.source, destination: event.link.destination };
  }
}

/** Where a part of the fabric says what has happened; never throws. */
export type EmitEvent = (event: FabricEvent) => void;
