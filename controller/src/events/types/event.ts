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

/** Everything the controller can tell of. */
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

/** An event as its source tells it: whoever delivers it adds who and when. `at` when that is not now. */
export type EventBody = Body<ControllerEvent> & { readonly timestamp?: string };

/** Where parts of the controller say what has happened. Never throws, never waits. */
export interface EventSink {
  /** Does anybody listen? What costs something to find out is not to be found out otherwise. */
  wants(namespace: EventNamespace): boolean;
  emit(event: EventBody): void;
}
