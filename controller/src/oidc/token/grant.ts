/** What a grant stands on: the session that a token names, as its rows are now. */
import type { ApiError } from "@sallyport/api";
import type { Checked } from "../../auth/tokens/own-tokens.ts";
import type { TokenSubject } from "../../auth/tokens/token-issuer.ts";
import type { OidcSessionFacts } from "../../model/session/oidc-sessions.ts";
import type { ClientId } from "../clients.ts";
import { oauthError } from "../oauth-error.ts";
import { knownScopes, type Parameters } from "../parameters.ts";
import type { Call, Provider } from "../provider-parts.ts";

interface SessionClaims {
  readonly sub: string;
  readonly jti: string;
  readonly client_id: string;
  readonly z_asid: string;
  readonly scopes: readonly string[];
}

/** A token that counts, with its session as it is now. */
interface ShownToken {
  readonly session: OidcSessionFacts;
  readonly jti: string;
  readonly scopes: readonly string[];
  readonly expiresAt: Date;
}

/**
 * The session of a refresh or access token that a client shows.
 * @param what the token is, for the description
 * @returns `scopes`: those of the token that the session still has; `expiresAt`: when the token ends
 * @throws ApiError `invalid_grant`, `access_denied` without the certificate that the tokens need
 */
export async function sessionOfToken(
  provider: Provider,
  { request }: Call,
  client: ClientId,
  what: "refresh token" | "access token",
  checked: Checked<SessionClaims> | undefined,
): Promise<ShownToken> {
  if (checked === undefined) throw invalidGrant(what, "not a token of this network");
  if ("refused" in checked) {
    throw checked.refused === "expired"
      ? oauthError("invalid_grant", `the ${what} has expired: log in again`)
      : invalidGrant(what, checked.detail);
  }
  const { sub, jti, client_id, z_asid: id } = checked.claims;
  if (client_id !== client) throw oauthError("invalid_grant", "client_id does not match original grant");
  const session = await provider.model.oidcSessions.subjectOf(id);
  if (session === undefined) throw invalidGrant(what, `API session ${id} has ended`);
  if (session.accessUntil === null) throw invalidGrant(what, `the login of API session ${id} is not complete`);
  if (session.identity.id !== sub) throw invalidGrant(what, `API session ${id} is another identity's`);
  if (session.isDisabled) throw invalidGrant(what, `identity ${sub} is disabled`);
  if (await provider.tokens.revoked.isRevoked(jti)) {
    throw oauthError("invalid_grant", `the ${what} is revoked: log in again`);
  }
  if (session.isBound && !(await provider.authentication.holdsCertificateOf(id, request))) {
    throw oauthError("access_denied", "peer certificate fingerprint does not match token");
  }
  const scopes = session.session.scopes.filter((scope) => checked.claims.scopes.includes(scope));
  return { session, jti, scopes, expiresAt: checked.expiresAt };
}

function invalidGrant(what: string, detail: string): ApiError {
  return oauthError("invalid_grant", `the ${what} is not valid: log in again`, { detail });
}

/**
 * A refresh token came that is not the present one of its session: there is a copy. The session ends.
 * @returns the error for the caller
 */
export async function reused({ model, authentication }: Provider, { request }: Call, id: string): Promise<ApiError> {
  await model.oidcSessions.end(id, "refresh token used twice");
  const detail = `a refresh token of API session ${id} was used twice: the session has ended`;
  const error = oauthError("invalid_grant", "the refresh token was used before: log in again", { detail });
  authentication.noteFailure({ method: "refresh-token", remoteIp: request.remoteIp }, error);
  return error;
}

/**
 * The scopes that an answer is for: those of the token that is shown, or some of them.
 * @throws ApiError `invalid_scope` for more than was granted, and for none
 */
export function scopesFor(granted: readonly string[], form: Parameters): readonly string[] {
  const asked = form.get("scope");
  if (asked === undefined) return granted;
  const scopes = knownScopes(asked);
  if (scopes.length > 0 && scopes.every((scope) => granted.includes(scope))) return scopes;
  throw oauthError("invalid_scope", "ask for scopes that the token has, or leave scope out");
}

/** What the tokens of an answer are made of. */
export function subjectFor(
  facts: OidcSessionFacts,
  { issuer }: Call,
  at: Date,
  change: Partial<TokenSubject["session"]> = {},
): TokenSubject {
  const { identity, session, notBeforeSecond } = facts;
  const { certFingerprints } = { ...session, ...change };
  if (facts.isBound && certFingerprints.length === 0) {
    // Routers believe what the token says, and would take one that names no certificate over every connection.
    throw oauthError("access_denied", "the session has no certificate left: log in again");
  }
  const noted = notBeforeSecond === undefined ? {} : { notBeforeSecond };
  return { identity, session: { ...session, ...change }, issuer, at, ...noted };
}

/** Whole seconds until a token ends. */
export function secondsUntil(expiresAt: Date, now: Date): number {
  return Math.max(0, Math.floor((expiresAt.getTime() - now.getTime()) / 1_000));
}
