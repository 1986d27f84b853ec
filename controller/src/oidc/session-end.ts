/** How sessions and tokens end before their time: revocation (RFC 7009) and logout (OpenID Connect RP-Initiated Logout 1.0). */
import { TOKEN_TYPE } from "../auth/tokens/claims.ts";
import type { EndpointAnswer } from "../http/endpoints.ts";
import { MAX_STATE_LENGTH, redirect } from "./authorize.ts";
import { readClient } from "./clients.ts";
import { PATHS } from "./discovery.ts";
import { oauthError } from "./oauth-error.ts";
import { Parameters } from "./parameters.ts";
import type { Call, Provider } from "./provider-parts.ts";
import { withParameters } from "./redirects.ts";

/** Every controller and router remembers each token that was revoked by itself: beyond these, the session of the tokens ends. */
export const SINGLE_REVOCATIONS = { burst: 20, perMinute: 1 / 60 };

/** A refresh token ends its session, an access token itself. What is unknown or over needs nothing. */
export async function revoke(provider: Provider, { request }: Call): Promise<EndpointAnswer> {
  const { tokens, model, singleRevocations, authentication } = provider;
  const form = new Parameters(request.form);
  const client = readClient(form, request.authorization);
  const token = form.require("token");
  // The token itself says of which kind it is: a hint is not needed.
  const checked = await tokens.own.accessOrRefresh(token, authentication.checkLimit(request));
  if (checked === undefined || "refused" in checked) return { status: 200 };
  const { z_t: kind, client_id, jti, z_asid: sessionId } = checked.claims;
  if (client_id !== client) throw oauthError("invalid_client", "client_id does not match original grant");
  const isSingle = kind === TOKEN_TYPE.access && singleRevocations.take(sessionId) === 0;
  if (isSingle) await model.revocations.create({ id: jti, type: "JTI", until: checked.expiresAt });
  else await model.oidcSessions.end(sessionId, "revoked");
  return { status: 200 };
}

/** Only a token proves whose session ends: without a hint nothing does. */
export async function endSession(
  { tokens, model, postLogout, authentication }: Provider,
  { request }: Call,
): Promise<EndpointAnswer> {
  const asked = new Parameters(request.query, request.form);
  const state = asked.short("state", MAX_STATE_LENGTH);
  const target = asked.get("post_logout_redirect_uri");
  const hint = asked.get("id_token_hint");
  if (hint === undefined) {
    if (target !== undefined) throw oauthError("invalid_request", "send id_token_hint with post_logout_redirect_uri");
    return redirect(PATHS.loggedOut);
  }
  const checked = await tokens.own.idHint(hint, authentication.checkLimit(request));
  if (checked === undefined || "refused" in checked) {
    throw oauthError("invalid_request", "the id_token_hint is not an id token of this network", {
      detail: checked?.detail ?? "not ours",
    });
  }
  const client = asked.get("client_id");
  if (client !== undefined && client !== checked.claims.azp) {
    throw oauthError("invalid_request", "client_id does not match azp of id_token_hint");
  }
  if (target !== undefined) postLogout.require("post_logout_redirect_uri", target);
  await model.oidcSessions.end(checked.claims.z_asid, "logout");
  return redirect(target === undefined ? PATHS.loggedOut : withParameters(target, { state }));
}
