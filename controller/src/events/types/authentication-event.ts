import type { EventHeader } from "./event-header.ts";

/** Somebody tried to log in. Names no credential, only ids; what is not known of a failed attempt is empty. */
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
