import type { EventHeader } from "./event-header.ts";

/** A router's control channel came up or ended. */
export interface RouterEvent extends EventHeader<"router"> {
  readonly event_type: "router-online" | "router-offline";
  readonly router_id: string;
  readonly router_online: boolean;
}
