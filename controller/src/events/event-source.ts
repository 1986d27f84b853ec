import type { EventBody } from "./types/event.ts";
import type { EventNamespace } from "./types/namespaces.ts";

/** Where parts of the controller say what has happened. Never throws, never waits. */
export interface EventSink {
  /** Does anybody listen? What costs something to find out is not to be found out otherwise. */
  wants(namespace: EventNamespace): boolean;
  emit(event: EventBody): void;
}
