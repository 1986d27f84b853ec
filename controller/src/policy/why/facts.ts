import type { PostureCheckType } from "@sallyport/api";
import type { Permission } from "@sallyport/wire";
import type { Attributed, RoleSelector, Semantic } from "../selector.ts";

/**
 * What is known of an identity and a service, as far as it decides whether the one reaches the other. Everything here was found by the same rules that decide a
 * real dial; `explain` only puts it into words. Times are milliseconds since 1970. Source: docs/why.md.
 */
export interface AccessFacts {
  readonly at: number;
  readonly type: Permission;
  readonly identity: NamedEntity & { readonly isAdmin: boolean; readonly isRouter: boolean };
  readonly service: NamedEntity & { readonly encryptionRequired: boolean };
  readonly authentication: AuthenticationFacts;
  readonly policies: PolicyFacts;
  readonly posture: PostureFacts;
  readonly routers: RouterFacts;
  readonly hosting: HostingFacts;
  readonly dials: DialFacts;
}

export interface Named {
  readonly id: string;
  readonly name: string;
}

export interface NamedEntity extends Named, Attributed {}

export interface AuthenticationFacts {
  /** While the identity is disabled; `until` is absent when an administrator has to enable it. */
  readonly disabled?: { readonly since: number; readonly until?: number };
  readonly policy: Named & {
    readonly requiresTotp: boolean;
    /** The signer whose token every request has to carry. */
    readonly requiredSigner?: string;
  };
  readonly authenticators: readonly Credential[];
  /** An external signer, or a registered authority, may prove the identity without an authenticator. */
  readonly isProvedByOthers: boolean;
  readonly enrollments: readonly { readonly method: string; readonly expiresAt: number }[];
  readonly isTotpEnrolled: boolean;
  /** API sessions that are alive, newest first. */
  readonly apiSessions: readonly { readonly id: string; readonly isTotpOpen: boolean; readonly since: number }[];
}

export interface Credential {
  readonly id: string;
  readonly method: "cert" | "updb";
  /** Why it does not prove the identity now. */
  readonly refusal?: "forbidden" | "expired" | "not yet valid";
  /** When a certificate is valid. */
  readonly startsAt?: number;
  readonly endsAt?: number;
  /** The registered certificate authority that issued it; absent: the network did. */
  readonly authority?: Named;
}

export interface ServicePolicyRef extends Named {
  readonly semantic: Semantic;
  readonly identities: RoleSelector;
  readonly services: RoleSelector;
}

export interface PolicyFacts {
  /** Policies of the type that select both. */
  readonly granting: readonly Named[];
  /** Policies of the other type that select both. */
  readonly ofOtherType: readonly Named[];
  /** Policies of the type that select the service and not the identity. */
  readonly missingIdentity: readonly ServicePolicyRef[];
  /** Policies of the type that select the identity and not the service. */
  readonly missingService: readonly ServicePolicyRef[];
  /** An administrator has a session of this type for the service: it lasts without a policy. */
  readonly isKeptAlive: boolean;
}

export interface FailingCheck extends Named {
  readonly typeId: PostureCheckType;
  readonly actual: unknown;
  readonly expected: unknown;
  /** When the device, or the user, last said something about it; absent: never. */
  readonly reportedAt?: number;
}

export interface PostureFacts {
  /** How many of the granting policies ask for posture checks. */
  readonly asking: number;
  /** Policies that do not let through, with the checks that fail; empty when one does. */
  readonly failures: readonly { readonly policy: Named; readonly checks: readonly FailingCheck[] }[];
  /** The edge routers evaluate the checks of this identity, and what its device reported to them is not known here. */
  readonly isDecidedByRouters: boolean;
}

export interface EdgeRouter extends Named {
  readonly isOnline: boolean;
  /** Applications can connect to it: it has announced an address for them. */
  readonly hasListener: boolean;
}

/** One side: the routers of the identity, or of the service. */
export interface RouterSide {
  /** Policies that select the entity. */
  readonly policies: readonly Named[];
  /** Enabled edge routers that these select. */
  readonly routers: readonly Named[];
  /** Disabled ones, looked up when there is no enabled one. */
  readonly disabled: readonly Named[];
}

export interface RouterFacts {
  readonly ofIdentity: RouterSide;
  readonly ofService: RouterSide;
  /** Those on both sides. Of the identity of a tunneling router only itself. */
  readonly common: readonly EdgeRouter[];
}

export interface Terminator {
  readonly id: string;
  readonly router: Named & { readonly isOnline: boolean };
  /** The identity that hosts; absent when a router or an administrator made the terminator. */
  readonly host?: Named;
  readonly instanceId: string;
  readonly precedence: string;
  readonly cost: number;
  /** It gives the dialing side a public key. */
  readonly sendsPublicKey: boolean;
}

/** What a dial from an edge router comes to. */
export type RouteFromRouter =
  | { readonly from: string; readonly terminatorId: string; readonly via: readonly string[] }
  | {
      readonly from: string;
      readonly cause: "NO_TERMINATORS" | "NO_ONLINE_TERMINATORS" | "NO_PATH" | "INVALID_STRATEGY";
      readonly message: string;
    };

export interface HostingFacts {
  readonly terminators: readonly Terminator[];
  /** From each router that the identity could dial over. */
  readonly routes: readonly RouteFromRouter[];
  /** The service's strategy draws among terminators: another dial may come to another one. */
  readonly isDrawn: boolean;
  /** Policies of type `Bind` that select the service; looked up when it has no terminator. */
  readonly bindPolicies: readonly Named[];
  /** Some identities that these select. */
  readonly mayHost: readonly (Named & { readonly connection: "online" | "offline" | "unknown" })[];
}

export interface FailedDial {
  readonly at: number;
  readonly code: string;
  /** As the client got it, or in the controller's words. */
  readonly message: string;
  /** How often it failed so in a row; `at` is the last time. */
  readonly count: number;
  readonly routerId?: string;
}

export interface DialFacts {
  /** Newest first. */
  readonly failed: readonly FailedDial[];
  /** A circuit came about after the newest failure. */
  readonly hasSucceededSince: boolean;
}
