import type { TokenSubject } from "../../auth/tokens/token-issuer.ts";
import type { OidcShown } from "../../store/session-tables.ts";
import type { Db, ModelContext } from "../context.ts";
import type { NewApiSession } from "./api-sessions.ts";

/** What a login by OIDC begins with, beside its API session. */
export interface OidcStart {
  readonly clientId: TokenSubject["session"]["clientId"];
  readonly scopes: readonly string[];
  readonly amr: readonly string[];
  readonly shown: OidcShown;
  readonly loginFingerprint: string | null;
  readonly isBound: boolean;
}

/** The tokens that were issued last. */
export interface OidcIssue {
  readonly refreshJti: string | null;
  readonly accessUntil: Date;
  readonly expiresAt: Date;
  readonly sessionFingerprint?: string;
}

/** What tokens of a session are made of; `at` and `issuer` are the caller's. */
export type OidcSubject = Omit<TokenSubject, "at" | "issuer">;

export interface OidcSessionFacts extends OidcSubject {
  readonly refreshJti: string | null;
  readonly previousJti: string | null;
  readonly rotatedAt: Date | null;
  readonly isBound: boolean;
  readonly isDisabled: boolean;
}

/** What API sessions of logins by OIDC have besides: the family of their refresh tokens, and what their tokens say. */
export class OidcSessions {
  readonly ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.ctx = ctx;
  }

  async insert(_trx: Db, _made: NewApiSession, _start: OidcStart): Promise<void> {
    throw new Error("sessions of OIDC are not served yet");
  }

  async activate(_id: string, _tokens: OidcIssue): Promise<OidcSubject> {
    throw new Error("sessions of OIDC are not served yet");
  }

  async subjectOf(_id: string): Promise<OidcSessionFacts | undefined> {
    throw new Error("sessions of OIDC are not served yet");
  }

  /** `lost`: another request was first. */
  async rotate(_id: string, _from: string, _tokens: OidcIssue): Promise<"rotated" | "lost"> {
    throw new Error("sessions of OIDC are not served yet");
  }

  async end(
    _id: string,
    _reason: "logout" | "code used twice" | "refresh token used twice" | "revoked",
  ): Promise<boolean> {
    throw new Error("sessions of OIDC are not served yet");
  }
}
