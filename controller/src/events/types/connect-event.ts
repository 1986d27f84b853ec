import type { EventHeader } from "./event-header.ts";

/** A connection was made to a controller or a router. */
export interface ConnectEvent extends EventHeader<"connect"> {
  readonly src_type: "router" | "peer" | "identity";
  readonly src_id: string;
  readonly src_addr: string;
  readonly dst_type: "ctrl" | "router";
  readonly dst_id: string;
  readonly dst_addr: string;
}
