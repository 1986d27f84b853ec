/** Kinds of events by the name they are subscribed under and carry as `namespace`. Source: docs/events.md. */
export const EVENT_NAMESPACES = [
  "alert",
  "apiSession",
  "authentication",
  "circuit",
  "cluster",
  "connect",
  "entityChange",
  "entityCount",
  "link",
  "metrics",
  "router",
  "sdk",
  "service",
  "session",
  "terminator",
  "usage",
] as const;
export type EventNamespace = (typeof EVENT_NAMESPACES)[number];

/** Older names that subscriptions may use. Events delivered for such a subscription carry `namespace` as given here. */
export const OLD_NAMES: Readonly<Record<string, { readonly type: EventNamespace; readonly namespace: string }>> = {
  "edge.apiSessions": { type: "apiSession", namespace: "edge.apiSessions" },
  "edge.authentications": { type: "authentication", namespace: "edge.authentications" },
  "edge.entityCounts": { type: "entityCount", namespace: "edge.entityCounts" },
  "edge.sessions": { type: "session", namespace: "edge.sessions" },
  "fabric.circuits": { type: "circuit", namespace: "fabric.circuits" },
  "fabric.links": { type: "link", namespace: "fabric.links" },
  "fabric.routers": { type: "router", namespace: "fabric.routers" },
  "fabric.terminators": { type: "terminator", namespace: "fabric.terminators" },
  "fabric.usage": { type: "usage", namespace: "fabric.usage" },
  services: { type: "service", namespace: "service.events" },
};

/** What every event begins with. The names of an event's fields are those that reach consumers. */
interface EventHeader<N extends EventNamespace> {
  readonly namespace: N;
  /** Id of the controller that saw it happen. */
  readonly event_src_id: string;
  /** RFC 3339, UTC. */
  readonly timestamp: string;
}

/** Where a circuit runs. */
export interface CircuitEventPath {
  /** Router ids, the initiating one first. */
  readonly nodes: readonly string[] | null;
  /** Link ids, one less than nodes. */
  readonly links: readonly string[] | null;
  readonly ingress_id: string;
  readonly egress_id: string;
  readonly initiator_local_addr?: string;
  readonly initiator_remote_addr?: string;
  readonly terminator_local_addr?: string;
  readonly terminator_remote_addr?: string;
}

/** A circuit was made, moved, taken down, or could not be made. */
export interface CircuitEvent extends EventHeader<"circuit"> {
  readonly version: 2;
  readonly event_type: "created" | "pathUpdated" | "deleted" | "failed";
  readonly circuit_id: string;
  readonly client_id: string;
  readonly service_id: string;
  readonly terminator_id: string;
  readonly instance_id: string;
  /** Nanoseconds from the request to the circuit (or to the failure). */
  readonly creation_timespan?: number;
  readonly path: CircuitEventPath;
  readonly link_count: number;
  readonly path_cost?: number;
  /** On `failed`. */
  readonly failure_cause?: string;
  /** Nanoseconds that it was up; on `deleted`. */
  readonly duration?: number;
  readonly tags: Readonly<Record<string, string>> | null;
}

/** A router reported a link, or lost one. */
export interface LinkEvent extends EventHeader<"link"> {
  readonly event_type:
    | "dialed"
    | "connected"
    | "fault"
    | "duplicate"
    | "connectionsChanged"
    | "routerLinkNew"
    | "routerLinkKnown"
    | "routerLinkDisconnectedDest";
  readonly link_id: string;
  readonly src_router_id: string;
  readonly dst_router_id: string;
  readonly protocol: string;
  readonly dial_address: string;
  readonly cost: number;
  readonly connections?: readonly { readonly id: string; readonly local_addr: string; readonly remote_addr: string }[];
}

/** A router's control channel came up or ended. */
interface RouterEvent extends EventHeader<"router"> {
  readonly event_type: "router-online" | "router-offline";
  readonly router_id: string;
  readonly router_online: boolean;
}

/** A connection was made to a controller or a router. */
interface ConnectEvent extends EventHeader<"connect"> {
  readonly src_type: "router" | "peer" | "identity";
  readonly src_id: string;
  readonly src_addr: string;
  readonly dst_type: "ctrl" | "router";
  readonly dst_id: string;
  readonly dst_addr: string;
}

/** A terminator changed, or its router came or went. The last three numbers are those of its whole service; -1: the service is gone. */
export interface TerminatorEvent extends EventHeader<"terminator"> {
  readonly event_type: "created" | "updated" | "deleted" | "router-online" | "router-offline";
  readonly service_id: string;
  readonly terminator_id: string;
  readonly router_id: string;
  readonly host_id: string;
  readonly instance_id: string;
  readonly router_online: boolean;
  readonly precedence: string;
  readonly static_cost: number;
  readonly dynamic_cost: number;
  readonly total_terminators: number;
  readonly usable_default_terminators: number;
  readonly usable_required_terminators: number;
}

/** How often circuits of a service were asked for in an interval, by how that ended. */
export type ServiceEventType =
  | "service.dial.success"
  | "service.dial.fail"
  | "service.dial.timeout"
  | "service.dial.error_other"
  | "service.dial.terminator.timeout"
  | "service.dial.terminator.connection_refused"
  | "service.dial.terminator.invalid"
  | "service.dial.terminator.misconfigured";

interface ServiceEvent extends EventHeader<"service"> {
  readonly version: 2;
  readonly event_type: ServiceEventType;
  readonly service_id: string;
  /** Empty when no terminator was chosen. */
  readonly terminator_id: string;
  readonly count: number;
  /** Seconds since 1970. */
  readonly interval_start_utc: number;
  /** Seconds. */
  readonly interval_length: number;
}

interface CircuitUsageEvent extends EventHeader<"usage"> {
  /** Router that counted. */
  readonly source_id: string;
  readonly circuit_id: string;
  /** Seconds since 1970. */
  readonly interval_start_utc: number;
  /** Seconds. */
  readonly interval_length: number;
  /** Of the circuit: `clientId`, `hostId`, `serviceId`. */
  readonly tags: Readonly<Record<string, string>> | null;
}

/** Bytes of one counter of one circuit in one interval; for subscriptions of version 2. */
interface UsageEventV2 extends CircuitUsageEvent {
  readonly version: 2;
  /** `usage.ingress.rx`, `usage.ingress.tx`, `usage.egress.rx`, … */
  readonly event_type: string;
  readonly usage: number;
}

/** Bytes of all counters of one circuit in one interval. */
interface UsageEventV3 extends CircuitUsageEvent {
  readonly version: 3;
  /** `ingress.rx`, `ingress.tx`, `egress.rx`, `egress.tx`, `fabric.rx`, `fabric.tx`. */
  readonly usage: Readonly<Record<string, number>>;
}

type UsageEvent = UsageEventV2 | UsageEventV3;

/** One metric out of a router's report. */
export interface MetricsEvent extends EventHeader<"metrics"> {
  readonly version: 3;
  readonly metric_type: "intValue" | "floatValue" | "meter" | "histogram" | "timer";
  /** Router that measured. */
  readonly source_id: string;
  /** What it measured, where the metric is about one thing: a link, a control channel. */
  readonly source_entity_id?: string;
  readonly metric: string;
  readonly metrics: Readonly<Record<string, number>>;
  readonly tags?: Readonly<Record<string, string>>;
  /** The same for all metrics of one report. */
  readonly source_event_id: string;
}

/** An API session began, went on with other settings, or ended. */
interface ApiSessionEvent extends EventHeader<"apiSession"> {
  readonly event_type: "created" | "deleted" | "refreshed" | "exchanged";
  readonly id: string;
  readonly type: "legacy" | "jwt";
  /** The session's id: its token would let a reader of the event act as the identity. */
  readonly token: string;
  readonly identity_id: string;
  /** Of the login; empty when the session is gone already. */
  readonly ip_address: string;
}

/** An identity's session for one service began or ended. */
interface SessionEvent extends EventHeader<"session"> {
  readonly event_type: "created" | "deleted";
  /** `Dial` or `Bind`. */
  readonly session_type: string;
  readonly provider: "legacy" | "jwt";
  readonly id: string;
  /** The session's id: never its token. */
  readonly token: string;
  readonly api_session_id: string;
  readonly identity_id: string;
  readonly service_id: string;
}

/** A client tried to log in. Holds ids, no credential; what is unknown of a failed attempt is empty. */
interface AuthenticationEvent extends EventHeader<"authentication"> {
  readonly event_type: "success" | "fail";
  /** Method: `password`, `cert`, `ext-jwt`. */
  readonly type: string;
  readonly authenticator_id: string;
  readonly external_jwt_signer_id: string;
  readonly identity_id: string;
  readonly auth_policy_id: string;
  readonly remote_address: string;
  readonly success: boolean;
  /** Why it failed; empty on success. */
  readonly reason: string;
  readonly improper_client_cert_chain: boolean;
}

/** An identity connected to the first edge router, or left the last one. Unknown: the router that it was connected to is away. */
interface SdkEvent extends EventHeader<"sdk"> {
  readonly event_type: "sdk-online" | "sdk-offline" | "sdk-status-unknown";
  readonly identity_id: string;
}

/** A stored entity changed. Each change gives two events with one `eventId`: what happened, and `committed`; both after the commit. */
interface EntityChangeEvent extends EventHeader<"entityChange"> {
  readonly eventId: string;
  readonly eventType: "created" | "updated" | "deleted" | "committed";
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Collection of the entity, for example `services`. */
  readonly entityType: string;
  readonly isParentEvent: boolean;
  /** What is known of the state before, null when nothing is; never holds a secret. */
  readonly initialState?: Readonly<Record<string, unknown>> | null;
  /** The state after, null when the entity is gone; never holds a secret. */
  readonly finalState?: Readonly<Record<string, unknown>> | null;
}

/** A router reports what an operator should repair. */
interface AlertEvent extends EventHeader<"alert"> {
  readonly alert_source_type: string;
  readonly alert_source_id: string;
  /** `error`. */
  readonly severity: string;
  readonly message: string;
  readonly details: readonly string[];
  /** Ids by type of the entity: `router`, `identity`, `service`. */
  readonly related_entities: Readonly<Record<string, string>>;
}

/** How many entities of each kind there are; at the interval of the subscription. */
interface EntityCountEvent extends EventHeader<"entityCount"> {
  readonly counts: Readonly<Record<string, number>>;
  /** Why there are no counts; empty otherwise. */
  readonly error: string;
}

/** The set of controllers changed. A single controller never emits it, but subscriptions may name it. */
interface ClusterEvent extends EventHeader<"cluster"> {
  readonly eventType: string;
  readonly index?: number;
  readonly peers?: readonly object[];
  readonly leaderId?: string;
}

/** Every event of the controller. */
export type ControllerEvent =
  | AlertEvent
  | ApiSessionEvent
  | AuthenticationEvent
  | CircuitEvent
  | ClusterEvent
  | ConnectEvent
  | EntityChangeEvent
  | EntityCountEvent
  | LinkEvent
  | MetricsEvent
  | RouterEvent
  | SdkEvent
  | ServiceEvent
  | SessionEvent
  | TerminatorEvent
  | UsageEvent;

type WithoutOrigin<E> = E extends unknown ? Omit<E, "event_src_id" | "timestamp"> : never;

/** An event as its source emits it: the dispatcher adds controller and time. `timestamp` when that is not now. */
export type EventBody = WithoutOrigin<ControllerEvent> & { readonly timestamp?: string };

/** Where parts of the controller emit events. Never throws, never waits. */
export interface EventSink {
  /** Is there a subscriber? Ask before work that only an event needs. */
  wants(namespace: EventNamespace): boolean;
  emit(event: EventBody): void;
}
