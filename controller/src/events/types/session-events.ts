import type { EventHeader } from "./event-header.ts";

/** An API session began, went on with other settings, or ended. */
export interface ApiSessionEvent extends EventHeader<"apiSession"> {
  readonly event_type: "created" | "deleted" | "refreshed" | "exchanged";
  readonly id: string;
  readonly type: "legacy" | "jwt";
  /** The session's id: its token would let a reader of the event act as the identity. */
  readonly token: string;
  readonly identity_id: string;
  /** Of the login; empty when the session is gone already. */
  readonly ip_address: string;
}

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

/** A client tried to log in. Holds ids, no credential; what is unknown of a failed attempt is empty. */
export interface AuthenticationEvent extends EventHeader<"authentication"> {
  readonly event_type: "success" | "fail";
  /** Method: `password`, `cert`, `ext-jwt`. */
  readonly type: string;
  readonly authenticator_id: string;
  readonly external_jwt_signer_id: string;
  readonly identity_id: string;
  readonly auth_policy_id: string;
  readonly remote_address: string;
  readonly success: boolean;
  /** Why it failed; empty on success. */
  readonly reason: string;
  readonly improper_client_cert_chain: boolean;
}

/** An identity connected to the first edge router, or left the last one. Unknown: the router that it was connected to is away. */
export interface SdkEvent extends EventHeader<"sdk"> {
  readonly event_type: "sdk-online" | "sdk-offline" | "sdk-status-unknown";
  readonly identity_id: string;
}
