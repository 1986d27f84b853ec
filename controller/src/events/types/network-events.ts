import type { EventHeader } from "./event-header.ts";

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

export interface LinkEventConnection {
  readonly id: string;
  readonly local_addr: string;
  readonly remote_addr: string;
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
  readonly connections?: readonly LinkEventConnection[];
}

/** A router's control channel came up or ended. */
export interface RouterEvent extends EventHeader<"router"> {
  readonly event_type: "router-online" | "router-offline";
  readonly router_id: string;
  readonly router_online: boolean;
}

/** A connection was made to a controller or a router. */
export interface ConnectEvent extends EventHeader<"connect"> {
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

export interface ServiceEvent extends EventHeader<"service"> {
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

interface UsageInterval extends EventHeader<"usage"> {
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
export interface UsageEventV2 extends UsageInterval {
  readonly version: 2;
  /** `usage.ingress.rx`, `usage.ingress.tx`, `usage.egress.rx`, … */
  readonly event_type: string;
  readonly usage: number;
}

/** Bytes of all counters of one circuit in one interval. */
export interface UsageEventV3 extends UsageInterval {
  readonly version: 3;
  /** `ingress.rx`, `ingress.tx`, `egress.rx`, `egress.tx`, `fabric.rx`, `fabric.tx`. */
  readonly usage: Readonly<Record<string, number>>;
}

export type UsageEvent = UsageEventV2 | UsageEventV3;

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
