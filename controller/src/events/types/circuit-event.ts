import type { EventHeader } from "./event-header.ts";

export const CIRCUIT_EVENT_TYPES = ["created", "pathUpdated", "deleted", "failed"] as const;

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
  readonly event_type: (typeof CIRCUIT_EVENT_TYPES)[number];
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
