import type { EventHeader } from "./event-header.ts";

/** An identity's session for one service began or ended. */
export interface SessionEvent extends EventHeader<"session"> {
  readonly event_type: "created" | "deleted";
  /** `Dial` or `Bind`. */
  readonly session_type: string;
  readonly provider: "legacy" | "jwt";
  readonly id: string;
  /** The session's id: never its token. */
  readonly token: string;
  readonly api_session_id: string;
  readonly identity_id: string;
  readonly service_id: string;
}
