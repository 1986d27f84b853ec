import type { PostureCheck } from "@sallyport/posture";
import type { edgeClientPb, Permission } from "@sallyport/wire";

/**
 * What the router's edge asks about access tokens: whether a token is good, and what its bearer may do. The answers come out of the data
 * model, without a controller.
 *
 * Source: docs/protocol/data-model.md, "Sallyport's router".
 */

/** What a verified access token says. Rights are never taken from it. */
export interface AccessClaims {
  readonly token: string;
  /** Names the token in logs. */
  readonly tokenId: string;
  readonly identityId: string;
  readonly apiSessionId: string;
  /** Milliseconds since 1970, as are all times here. */
  readonly issuedAt: number;
  /** When it counts no more: its expiry, and the leeway for clocks that differ. */
  readonly endsAt: number;
  /** SHA-1 (40 hex characters) of the certificates that the session is bound to. */
  readonly fingerprints: readonly string[];
  readonly allowsExpiredCertificates: boolean;
  /** When a one-time code was given, if the login asked for one. */
  readonly totpAt?: number;
}

/** What a verified service token says. */
export interface ServiceClaims {
  readonly sessionId: string;
  readonly serviceId: string;
  readonly apiSessionId: string;
  readonly identityId: string;
  readonly type: Permission;
  /** It belongs to an API session with an opaque token. */
  readonly isLegacy: boolean;
}

/** Why a token is refused. `IDENTITY`: the network has no such identity, or a disabled one. */
type TokenRefusal =
  | "MALFORMED"
  | "UNKNOWN_KEY"
  | "SIGNATURE"
  | "EXPIRED"
  | "TYPE"
  | "AUDIENCE"
  | "REVOKED"
  | "IDENTITY"
  | "OTHER_SESSION";

/** The token is not good. The message never holds the token. */
export class TokenRefusedError extends Error {
  override readonly name = "TokenRefusedError";
  readonly code: TokenRefusal;

  constructor(code: TokenRefusal, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface AccessQuestion {
  readonly identityId: string;
  readonly apiSessionId: string;
  readonly serviceId: string;
  readonly type: Permission;
}

/** `until`: when posture may fail by time alone. `failingCheckIds`: sorted; empty for other reasons than posture. */
export type AccessVerdict =
  | { readonly isAllowed: true; readonly until?: number }
  | {
      readonly isAllowed: false;
      readonly reason: "unknown service" | "no identity" | "disabled" | "no policy" | "posture";
      readonly failingCheckIds: readonly string[];
    };

/** Who may have lost or gained something. */
export interface AccessChange {
  readonly identities: ReadonlySet<string> | "all";
  /** Ids of API sessions: revoked ones, and those whose posture changed. */
  readonly sessions: ReadonlySet<string>;
  /** Of the data model. */
  readonly index: bigint;
}

export interface ServiceView {
  readonly id: string;
  readonly name: string;
  readonly isEncrypted: boolean;
  readonly configIds: readonly string[];
  /** Of the policies that grant it, sorted. */
  readonly policyIds: readonly string[];
  /** As they apply to the identity: its own before those of the service, one of a type. */
  readonly configs: readonly { readonly typeId: string; readonly typeName: string; readonly dataJson: string }[];
}

export interface PolicyView {
  readonly id: string;
  readonly type: Permission;
  /** Sorted. */
  readonly checkIds: readonly string[];
}

export interface CheckState {
  readonly isPassing: boolean;
  /** When it fails by time alone; absent: never. */
  readonly timeoutAt?: number;
}

/** Everything that an identity is granted, and how its posture stands at this moment. */
export interface IdentityView {
  /** Of the data model. */
  readonly index: bigint;
  readonly services: ReadonlyMap<string, ServiceView>;
  readonly policies: ReadonlyMap<string, PolicyView>;
  readonly checks: ReadonlyMap<string, PostureCheck>;
  readonly checkStates: ReadonlyMap<string, CheckState>;
  /** Policies by id: do all of their checks pass? */
  readonly policyStates: ReadonlyMap<string, boolean>;
}

export interface Access {
  /** A whole data model is here. */
  readonly isReady: boolean;
  /**
   * Checks an access token. A key or an identity that is not in the data model yet is waited for.
   *
   * @throws TokenRefusedError; rejects with the signal's reason
   */
  accessToken(token: string, o: { signal?: AbortSignal; timeoutMs: number }): Promise<AccessClaims>;
  /** Checks a service token of a channel with these claims. @throws TokenRefusedError */
  serviceToken(token: string, of: AccessClaims): Promise<ServiceClaims>;
  isRevoked(claims: AccessClaims): boolean;
  /** Does the network have this identity, and is it enabled? */
  isEnabled(identityId: string): boolean;
  may(question: AccessQuestion): AccessVerdict;
  serviceIdOf(name: string): string | undefined;
  identityName(id: string): string | undefined;
  /** A channel has this token now: at its hello, and after a refresh. */
  joined(claims: AccessClaims): void;
  /** What the device of a channel says about itself. */
  reported(claims: AccessClaims, responses: edgeClientPb.PostureResponses): void;
  /** The last channel of an API session is gone: its posture is forgotten after five minutes. */
  left(apiSessionId: string): void;
  /** Calls the listener at most every 100 ms. Posture that lapses by time alone is not told: see `CheckState.timeoutAt`. */
  onChange(listener: (change: AccessChange) => void): () => void;
  view(identityId: string, apiSessionId: string): IdentityView;
}
