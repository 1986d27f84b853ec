/** A refresh token becomes new tokens; its successor takes its place (RFC 6749, section 6; RFC 9700, section 4.14). */
import type { EndpointAnswer } from "../../http/endpoints.ts";
import type { ClientId } from "../clients.ts";
import { jsonAnswer, oauthError } from "../oauth-error.ts";
import type { Parameters } from "../parameters.ts";
import type { Call, Provider } from "../provider-parts.ts";
import { reused, scopesFor, secondsUntil, sessionOfToken, subjectFor } from "./grant.ts";
import { certificateFor, checkedCsr } from "./session-certificate.ts";

export interface Rotated {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly idToken: string;
  readonly expiresIn: number;
  readonly scope: string;
  readonly sessionCertPem: string | undefined;
}

export async function refreshTokens(
  provider: Provider,
  call: Call,
  client: ClientId,
  form: Parameters,
): Promise<EndpointAnswer> {
  const made = await rotate(provider, call, client, { form, token: form.require("refresh_token") });
  return jsonAnswer(200, {
    access_token: made.accessToken,
    token_type: "Bearer",
    refresh_token: made.refreshToken,
    expires_in: made.expiresIn,
    id_token: made.idToken,
    scope: made.scope,
    session_cert: made.sessionCertPem,
  });
}

/**
 * Of several requests with one token at once one wins. A token that is not the present one ends the session; of a session that is bound to a certificate it may
 * be repeated for a minute, because its client may not have got the answer.
 */
export async function rotate(
  provider: Provider,
  call: Call,
  client: ClientId,
  { form, token }: { readonly form: Parameters; readonly token: string },
): Promise<Rotated> {
  const { model, tokens, now } = provider;
  const checked = await tokens.own.refresh(token, provider.authentication.checkLimit(call.request));
  const { session, jti, scopes: granted } = await sessionOfToken(provider, call, client, "refresh token", checked);
  const id = session.session.id;
  const isPresent = jti === session.refreshJti || (session.isBound && jti === session.previousJti);
  if (!isPresent) throw await reused(provider, call, id);
  const scopes = scopesFor(granted, form);
  const csrPem = session.isBound ? form.get("csr_pem") : undefined;
  if (csrPem !== undefined) await checkedCsr(csrPem);
  const certificate = csrPem === undefined ? undefined : await certificateFor(provider, session, csrPem);
  const at = now();
  const bound = certificate && { certFingerprints: certificate.certFingerprints };
  const subject = subjectFor(session, call, at, { ...bound, scopes });
  const access = tokens.issuer.access(subject);
  // Narrower scopes are those of this answer, not of the ones to come.
  const refresh = tokens.issuer.refresh(subjectFor(session, call, at, bound));
  // A caller who left may have rotated it at another controller: what this one makes would take the place of that.
  if (call.request.signal.aborted)
    throw oauthError("invalid_request", "the connection ended before the request was begun");
  const outcome = await model.oidcSessions.rotate(id, jti, {
    refreshJti: refresh.jti,
    accessUntil: access.expiresAt,
    expiresAt: refresh.expiresAt,
    sessionFingerprint: certificate?.fingerprint,
  });
  if (outcome === "lost") throw await reused(provider, call, id);
  return {
    accessToken: access.token,
    refreshToken: refresh.token,
    idToken: tokens.issuer.id(subject, { accessToken: access.token }).token,
    expiresIn: secondsUntil(access.expiresAt, at),
    scope: scopes.join(" "),
    sessionCertPem: certificate?.pem,
  };
}
