import type { EventHeader } from "./event-header.ts";

/** An identity connected to the first edge router, or left the last one. Unknown: the router that it was connected to is away. */
export interface SdkEvent extends EventHeader<"sdk"> {
  readonly event_type: "sdk-online" | "sdk-offline" | "sdk-status-unknown";
  readonly identity_id: string;
}
