/** The code of a login becomes tokens, once (RFC 6749, section 4.1.3; RFC 7636, section 4.6). */
import { createHash, timingSafeEqual } from "node:crypto";
import type { EndpointAnswer } from "../../http/endpoints.ts";
import type { ClientId } from "../clients.ts";
import { jsonAnswer, oauthError } from "../oauth-error.ts";
import type { Parameters } from "../parameters.ts";
import type { Call, Provider } from "../provider-parts.ts";
import { secondsUntil, subjectFor } from "./grant.ts";
import { certificateFor } from "./session-certificate.ts";

const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/;

export async function exchangeCode(
  provider: Provider,
  call: Call,
  client: ClientId,
  form: Parameters,
): Promise<EndpointAnswer> {
  const { model, tokens, now, authentication } = provider;
  const code = form.get("code");
  const redirectUri = form.get("redirect_uri");
  const verifier = form.require("code_verifier");
  if (code === undefined) throw oauthError("invalid_grant", "invalid code");
  // From here on the code is used up, also by a wrong verifier: no client can try several.
  const login = await model.oidcLogins.takeCode(code);
  if (login === undefined) throw oauthError("invalid_grant", "invalid code");
  if ("usedBy" in login) {
    await model.oidcSessions.end(login.usedBy, "code used twice");
    const detail = `the code of API session ${login.usedBy} came twice: the session has ended`;
    const error = oauthError("invalid_grant", "invalid code", { detail });
    authentication.noteFailure({ method: "code", remoteIp: call.request.remoteIp }, error);
    throw error;
  }
  if (login.clientId !== client) throw oauthError("invalid_grant", "client_id does not match original grant");
  if (login.redirectUri !== redirectUri) throw oauthError("invalid_grant", "redirect_uri is not that of the login");
  if (!isVerified(login.codeChallenge, verifier)) throw oauthError("invalid_grant", "invalid code_verifier");

  const { session } = login;
  if (session === undefined || session.isDisabled)
    throw oauthError("invalid_grant", "the login has ended: begin a new one");
  const certificate = login.csrPem === null ? undefined : await certificateFor(provider, session, login.csrPem);
  const at = now();
  const subject = subjectFor(session, call, at, certificate && { certFingerprints: certificate.certFingerprints });
  const access = tokens.issuer.access(subject);
  const refresh = login.scopes.includes("offline_access") ? tokens.issuer.refresh(subject) : undefined;
  const { nonce } = login;
  const id = tokens.issuer.id(subject, { accessToken: access.token, code, ...(nonce !== "" && { nonce }) });
  const issue = {
    refreshJti: refresh?.jti ?? null,
    accessUntil: access.expiresAt,
    expiresAt: (refresh ?? access).expiresAt,
    sessionFingerprint: certificate?.fingerprint,
  };
  // The code came again while it was exchanged, which ends the session.
  if (!(await model.oidcSessions.activate(login.apiSessionId, issue))) {
    throw oauthError("invalid_grant", "the login has ended: begin a new one");
  }
  return jsonAnswer(200, {
    access_token: access.token,
    token_type: "Bearer",
    refresh_token: refresh?.token,
    expires_in: secondsUntil(access.expiresAt, at),
    id_token: id.token,
    scope: login.scopes.join(" "),
    session_cert: certificate?.pem,
  });
}

function isVerified(challenge: string, verifier: string): boolean {
  if (!VERIFIER.test(verifier)) return false;
  const [wanted, given] = [Buffer.from(challenge, "base64url"), createHash("sha256").update(verifier).digest()];
  return wanted.length === given.length && timingSafeEqual(wanted, given);
}
