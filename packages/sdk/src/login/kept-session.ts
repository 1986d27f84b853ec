import type { OidcTokens } from "@sallyport/api/client";
import { type Identity, identityFromPem } from "@sallyport/wire";

/**
 * What a session goes on with when the program is started again. Who has it is the identity until the session ends: it is as secret as a
 * private key.
 */
export interface KeptSession {
  readonly apiSessionId: string;
  readonly identityId: string;
  readonly identityName: string;
  readonly refreshToken: string;
  /** The certificate that the session is bound to, and its key; none where the controller gave none. */
  readonly bound?: { readonly certPem: string; readonly keyPem: string } | undefined;
}

/** Where the session of a login by OpenID Connect is kept. One program at a time may use it: a refresh token counts once. */
export interface SessionStore {
  read(): Promise<KeptSession | undefined>;
  /** @param session undefined: there is none any more */
  write(session: KeptSession | undefined): Promise<void>;
}

/**
 * What to keep of a session; undefined when it cannot go on without a login.
 *
 * @internal
 */
export function keptSessionOf(tokens: OidcTokens, bound: Identity | undefined): KeptSession | undefined {
  const { refreshToken, apiSessionId, identityId, identityName } = tokens;
  if (refreshToken === undefined) return undefined;
  const { certPem, keyPem } = bound ?? {};
  const isBound = certPem !== undefined && keyPem !== undefined;
  return { apiSessionId, identityId, identityName, refreshToken, bound: isBound ? { certPem, keyPem } : undefined };
}

/**
 * The tokens of a kept session, of which the access token has ended.
 *
 * @internal
 */
export function tokensOf({ apiSessionId, identityId, identityName, refreshToken }: KeptSession): OidcTokens {
  return { apiSessionId, identityId, identityName, refreshToken, accessToken: "", expiresAt: 0 };
}

/**
 * @throws when certificate and key do not belong together
 *
 * @internal
 */
export function boundIdentityOf({ bound }: KeptSession, caPem: string): Identity | undefined {
  return bound && identityFromPem({ ...bound, caPem });
}
