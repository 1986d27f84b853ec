/** A client that has logged in by OIDC, for tests that need no provider: the login, the session and the tokens are real. */
import type { X509Certificate } from "node:crypto";
import type { LoginRequest } from "../../auth/authentication.ts";
import type { TokenSubject } from "../../auth/tokens/token-issuer.ts";
import type { OidcStart } from "../../model/session/oidc-sessions.ts";
import type { TestController } from "./test-controller.ts";

export interface OidcClient {
  /** Of the API session. */
  readonly id: string;
  readonly identityId: string;
  readonly accessToken: string;
  readonly refreshToken: string;
  /** Of the access token. */
  readonly jti: string;
  readonly headers: { readonly authorization: string };
}

type Who = { readonly username: string; readonly password: string } | { readonly certificate: X509Certificate };

const LOGIN_MS = 1_800_000;

/** The first factor: a session that has no tokens yet. @returns its id */
export async function beginOidcLogin(c: TestController, who: Who, more: Partial<LoginRequest> = {}): Promise<string> {
  const isCertificate = "certificate" in who;
  const { session } = await c.authentication.login({
    ...(isCertificate
      ? { method: "cert", peerCertificates: [who.certificate] }
      : { method: "password", peerCertificates: [], ...who }),
    ...{ bearerTokens: [], remoteIp: "127.0.0.1", configTypes: ["all"], ...more },
    as: {
      kind: "oidc",
      expiresAt: new Date(c.ctx.now().getTime() + LOGIN_MS),
      onMade: async (trx, made, proof) => {
        const start: OidcStart = {
          ...{ clientId: "openziti", scopes: ["openid", "offline_access"], amr: [isCertificate ? "cert" : "password"] },
          shown: { sdkInfo: null, envInfo: null, remoteAddress: "127.0.0.1:1" },
          loginFingerprint: proof.certFingerprints[0] ?? null,
          isBound: proof.certFingerprints.length > 0,
        };
        await c.model.oidcSessions.insert(trx, made, start);
      },
    },
  });
  return session.id;
}

/** What the tokens of the session are made of now. */
export async function tokenSubject(c: TestController, id: string): Promise<TokenSubject> {
  const session = await c.model.oidcSessions.subjectOf(id);
  if (session === undefined) throw new Error(`API session ${id} has ended`);
  return { ...session, issuer: `https://${c.ctx.settings.apiAddress}/oidc`, at: c.ctx.now() };
}

/** The tokens for a session without open factors. */
export async function finishOidcLogin(c: TestController, id: string): Promise<OidcClient> {
  const subject = await tokenSubject(c, id);
  const access = c.ctx.tokens.issuer.access(subject);
  const refresh = c.ctx.tokens.issuer.refresh(subject);
  const { jti: refreshJti, expiresAt } = refresh;
  const isActive = await c.model.oidcSessions.activate(id, { refreshJti, accessUntil: access.expiresAt, expiresAt });
  if (!isActive) throw new Error(`API session ${id} has ended`);
  return {
    id,
    identityId: subject.identity.id,
    accessToken: access.token,
    refreshToken: refresh.token,
    jti: access.jti,
    headers: { authorization: `Bearer ${access.token}` },
  };
}

export async function loginByOidc(c: TestController, who: Who): Promise<OidcClient> {
  return finishOidcLogin(c, await beginOidcLogin(c, who));
}
