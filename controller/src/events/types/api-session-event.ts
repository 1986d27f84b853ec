import type { EventHeader } from "./event-header.ts";

/** An API session began, went on with other settings, or ended. */
export interface ApiSessionEvent extends EventHeader<"apiSession"> {
  readonly event_type: "created" | "deleted" | "refreshed" | "exchanged";
  readonly id: string;
  readonly type: "legacy" | "jwt";
  /** The session's id: its token would let whoever reads the event act as the identity. */
  readonly token: string;
  readonly identity_id: string;
  /** Of the login; empty when the session is gone already. */
  readonly ip_address: string;
}
