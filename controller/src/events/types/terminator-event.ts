import type { EventHeader } from "./event-header.ts";

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
