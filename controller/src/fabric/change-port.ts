/** What the fabric hears of the model. */
import type { ApiSessionRecord, Permission } from "@sallyport/wire";

/** May the identity dial, or host, the service? */
export interface AccessQuestion {
  readonly identityId: string;
  readonly serviceId: string;
  readonly type: Permission;
}

export interface Revoked {
  readonly kind: "revoked";
  readonly type: "JTI" | "API_SESSION" | "IDENTITY";
  readonly id: string;
  /** Of an identity: tokens that were issued in this second, or before, count no more. Absent: all do not. */
  readonly issuedBefore?: Date;
}

/**
 * A committed change the fabric acts on. Delivered at least once, in commit order per entity. Services and terminators are read again for every circuit, so
 * only their removal is a change.
 */
export type ModelChange =
  /** Some changes were lost: everything that the fabric holds may be out of date. */
  | { readonly kind: "changes-lost" }
  /** Fully authenticated now, or changed (a session certificate added or removed). */
  | { readonly kind: "api-session-added"; readonly session: ApiSessionRecord }
  /** Very many came about at once: routers get all of them. */
  | { readonly kind: "api-sessions-added" }
  | { readonly kind: "api-session-updated"; readonly session: ApiSessionRecord }
  /** Logged out, expired or deleted; its sessions follow as `session-removed`. `token`: empty for a session of access tokens, which routers are not told of. */
  | { readonly kind: "api-session-removed"; readonly id: string; readonly token: string }
  /** `session`: whose it was and for what; absent when that is not known any more. */
  | {
      readonly kind: "session-removed";
      readonly id: string;
      readonly token: string;
      readonly session?: AccessQuestion;
    }
  /** Access tokens count no more: one token, those of an API session, or those that an identity got before `issuedBefore`. */
  | Revoked
  /** An identity may have lost the right to dial or host a service. */
  | { readonly kind: "access-changed" }
  /** Anything of {@link RouterRecord} changed: disabled, new fingerprint (re-enrollment clears it), cost, traversal. */
  | { readonly kind: "router-changed"; readonly routerId: string }
  | { readonly kind: "router-removed"; readonly routerId: string }
  | { readonly kind: "service-removed"; readonly serviceId: string }
  | { readonly kind: "terminator-removed"; readonly terminatorId: string };
