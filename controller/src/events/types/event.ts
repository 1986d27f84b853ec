import type { ApiSessionEvent } from "./api-session-event.ts";
import type { AuthenticationEvent } from "./authentication-event.ts";
import type { CircuitEvent } from "./circuit-event.ts";
import type { ClusterEvent } from "./cluster-event.ts";
import type { ConnectEvent } from "./connect-event.ts";
import type { EntityChangeEvent } from "./entity-change-event.ts";
import type { EntityCountEvent } from "./entity-count-event.ts";
import type { LinkEvent } from "./link-event.ts";
import type { MetricsEvent } from "./metrics-event.ts";
import type { RouterEvent } from "./router-event.ts";
import type { SdkEvent } from "./sdk-event.ts";
import type { ServiceEvent } from "./service-event.ts";
import type { SessionEvent } from "./session-event.ts";
import type { TerminatorEvent } from "./terminator-event.ts";
import type { UsageEvent } from "./usage-event.ts";

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
