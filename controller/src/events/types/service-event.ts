import type { EventHeader } from "./event-header.ts";

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
