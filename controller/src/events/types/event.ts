import type { ClusterEvent, EntityChangeEvent, EntityCountEvent } from "./entity-events.ts";
import type { EventNamespace } from "./event-header.ts";
import type {
  CircuitEvent,
  ConnectEvent,
  LinkEvent,
  MetricsEvent,
  RouterEvent,
  ServiceEvent,
  TerminatorEvent,
  UsageEvent,
} from "./network-events.ts";
import type { ApiSessionEvent, AuthenticationEvent, SdkEvent, SessionEvent } from "./session-events.ts";

/** Every event of the controller. */
export type ControllerEvent =
  | ApiSessionEvent
  | AuthenticationEvent
  | CircuitEvent
  | ClusterEvent
  | ConnectEvent
  | EntityChangeEvent
  | EntityCountEvent
  | LinkEvent
  | MetricsEvent
  | RouterEvent
  | SdkEvent
  | ServiceEvent
  | SessionEvent
  | TerminatorEvent
  | UsageEvent;

type Body<E> = E extends unknown ? Omit<E, "event_src_id" | "timestamp"> : never;

/** An event as its source emits it: the dispatcher adds controller and time. `timestamp` when that is not now. */
export type EventBody = Body<ControllerEvent> & { readonly timestamp?: string };

/** Where parts of the controller emit events. Never throws, never waits. */
export interface EventSink {
  /** Is there a subscriber? Ask before work that only an event needs. */
  wants(namespace: EventNamespace): boolean;
  emit(event: EventBody): void;
}
