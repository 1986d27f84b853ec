import type { Permission } from "@sallyport/wire";
import type { Semantic } from "./schema.ts";

/** What a change is about: one kind per entity table. */
export type ChangeKind =
  | "identity"
  | "service"
  | "router"
  | "config"
  | "config_type"
  | "posture_check"
  | "service_policy"
  | "edge_router_policy"
  | "service_edge_router_policy"
  | "identity_service_config"
  | "terminator"
  | "auth_policy"
  | "authenticator"
  | "enrollment"
  | "ca"
  | "ext_jwt_signer"
  | "mfa"
  | "api_session"
  | "api_session_certificate"
  | "session"
  /** What is known of an identity's devices: no table, the row only says that its services look different now. */
  | "posture_state";

/**
 * `before` of change-log rows, by kind; other kinds carry null.
 * - the three policies, identity, service, router: the old row's `attrs`/selectors as `{ attrs }` or `PolicyBefore`;
 * - auth_policy, mfa: what tells whose sessions may have become whole by it;
 * - api_session, session: `{ token, identityId, … }`, because a deleted row cannot be read any more.
 */
export interface PolicyBefore {
  semantic: Semantic;
  type?: Permission;
  sides: Record<string, { all: boolean; attrs: string[]; ids: string[] }>;
}
/** Of an update: its identity, or its policy, may not ask for a one-time code any more. */
export interface AuthPolicyBefore {
  isTotpNoLongerRequired: boolean;
}
export interface IdentityBefore {
  attrs: string[];
  isAuthPolicyChanged?: boolean;
}
/** Of a removal. */
export interface MfaBefore {
  identityId: string;
}
export interface ApiSessionBefore {
  token: string;
  identityId: string;
}
export interface SessionBefore {
  token: string;
  apiSessionId: string;
  identityId: string;
  serviceId: string;
  type: Permission;
}

/** The columns from which a statement takes the state before: see `loggedWrite`. */
export const API_SESSION_BEFORE: Record<keyof ApiSessionBefore, string> = { token: "token", identityId: "identity_id" };
export const SESSION_BEFORE: Record<keyof SessionBefore, string> = {
  token: "token",
  apiSessionId: "api_session_id",
  identityId: "identity_id",
  serviceId: "service_id",
  type: "type",
};
export const TERMINATOR_BEFORE = { routerId: "router_id", serviceId: "service_id" };
