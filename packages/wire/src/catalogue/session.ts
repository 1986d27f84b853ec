/** A right on a service: what a policy grants, and what a session was made for. */
export type Permission = "Dial" | "Bind";

/** An API session as controllers announce it to routers (docs/protocol/control.md, "API sessions"). */
export interface ApiSessionRecord {
  /** Grows as text with time: routers drop what a synchronisation did not list up to the greatest id. */
  readonly id: string;
  readonly token: string;
  readonly identityId: string;
  /** SHA-1 fingerprints (40 lower-case hex characters) of the certificates that may use the session. */
  readonly certFingerprints: readonly string[];
}

/** The only strategy by which controllers and routers synchronise API sessions, as `EdgeCtrlHeader.SyncStrategyType` names it. */
export const SYNC_STRATEGY = "instant";

/** Headers that a router's API proxy adds to a request: when the router passed it on, and the client's certificates (docs/protocol/edge.md, "API proxy"). */
export const ProxiedRequestHeader = {
  PassedOnAt: "x-edge-router-proxy-request",
  ClientCertificate: "x-client-certpem",
} as const;
