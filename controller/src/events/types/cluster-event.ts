import type { EventHeader } from "./event-header.ts";

/** The set of controllers changed. A controller on its own has none to tell; the namespace can be subscribed to all the same. */
export interface ClusterEvent extends EventHeader<"cluster"> {
  readonly eventType: string;
  readonly index?: number;
  readonly peers?: readonly object[];
  readonly leaderId?: string;
}
