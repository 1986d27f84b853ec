import type { EventHeader } from "./event-header.ts";

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
