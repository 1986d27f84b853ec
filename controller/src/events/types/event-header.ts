import type { EventNamespace } from "./namespaces.ts";

/** What every event begins with. The names of an event's fields are those that reach consumers. */
export interface EventHeader<N extends EventNamespace> {
  readonly namespace: N;
  /** Id of the controller that saw it happen. */
  readonly event_src_id: string;
  /** RFC 3339, UTC. */
  readonly timestamp: string;
}
