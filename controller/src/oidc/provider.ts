/**
 * The OIDC provider: how today's clients of OpenZiti log in (docs/oidc.md). It speaks the protocol; credentials, sessions and tokens are the model's. There are no
 * cookies: the id of a login is all that ties its steps together until the first factor is proved.
 */
import { ApiError } from "@sallyport/api";
import { boundedLog, shownText } from "@sallyport/wire";
import { RateLimit } from "../auth/limits/rate-limit.ts";
import type { Endpoint, EndpointAnswer, EndpointRequest } from "../http/endpoints.ts";
import { authorize, callback, LOGIN_LIFE_MS } from "./authorize.ts";
import { readClient } from "./clients.ts";
import { discoveryDocument, GRANTS, keySet, PATHS } from "./discovery.ts";
import { issuerOf } from "./issuer.ts";
import { type FirstFactor, logIn, loginPage, openQueries } from "./login/first-factor.ts";
import { endEnrollment, passCode, startEnrollment, verifyEnrollment } from "./login/one-time-code.ts";
import { identityOf } from "./login/outcome.ts";
import { type AnswerForm, answerForm, TEXT_TYPE } from "./negotiation.ts";
import { failureText, jsonAnswer, loginFailure, oauthError, oauthFailure } from "./oauth-error.ts";
import { OpenLogins } from "./open-logins.ts";
import { Parameters } from "./parameters.ts";
import type { Call, Provider, ProviderParts } from "./provider-parts.ts";
import { RedirectRules } from "./redirects.ts";
import { endSession, revoke, SINGLE_REVOCATIONS } from "./session-end.ts";
import { exchangeCode } from "./token/authorization-code.ts";
import { exchangeToken } from "./token/exchange.ts";
import { refreshTokens } from "./token/refresh.ts";

/** Credentials and tokens are short. */
export const MAX_LOGIN_BYTES = 65_536;
const MAX_BODY_BYTES = 1_048_576;
const CACHED = { "cache-control": "public, max-age=60" };

interface Route extends Pick<Endpoint, "method" | "path" | "media"> {
  readonly maxBodyBytes?: number;
  /** How errors are written. */
  readonly errors: "oauth" | "login";
  handle(provider: Provider, call: Call): Promise<EndpointAnswer>;
}

const get = (path: string, handle: Route["handle"], errors: Route["errors"] = "oauth"): Route => ({
  ...{ method: "GET", media: "none", path, handle, errors },
});
const post = (path: string, handle: Route["handle"], change: Partial<Route> = {}): Route => ({
  ...{ method: "POST", media: "form", path, handle, errors: "oauth", ...change },
});
const step: Partial<Route> = { media: "json-or-form", maxBodyBytes: MAX_LOGIN_BYTES, errors: "login" };
const login = (path: string, method: FirstFactor): Route[] => [
  get(path, (provider, call) => loginPage(provider, method, call), "login"),
  post(path, (provider, call) => logIn(provider, method, call), step),
];
const healthy = async () => jsonAnswer(200, { status: "ok" });

const ROUTES: readonly Route[] = [
  get(PATHS.discovery, async ({ tokens }, { issuer }) =>
    jsonAnswer(200, discoveryDocument(issuer, tokens.keys.requirePublished()), CACHED),
  ),
  get(PATHS.keys, async ({ tokens }) => jsonAnswer(200, keySet(tokens.keys.requirePublished()), CACHED)),
  get(PATHS.authorize, authorize),
  post(PATHS.authorize, authorize),
  get(PATHS.callback, callback),
  ...login(PATHS.username, "password"),
  ...login(PATHS.password, "password"),
  ...login(PATHS.certificate, "cert"),
  ...login(PATHS.externalToken, "ext-jwt"),
  get(PATHS.authQueries, openQueries, "login"),
  post(PATHS.totp, passCode, step),
  post(PATHS.totpEnroll, startEnrollment, step),
  { ...post(PATHS.totpEnroll, endEnrollment, step), method: "DELETE" },
  post(PATHS.totpEnrollVerify, verifyEnrollment, step),
  // JSON is read so that the answer can say what is missing.
  post(PATHS.token, token, { media: "json-or-form", maxBodyBytes: MAX_LOGIN_BYTES }),
  post(PATHS.revoke, revoke),
  post(PATHS.revokeOfConsole, revoke),
  get(PATHS.endSession, endSession),
  post(PATHS.endSession, endSession),
  get(PATHS.loggedOut, async ({ pages }) => pages.ended()),
  get(PATHS.userinfo, userinfo),
  post(PATHS.userinfo, userinfo, { media: "none" }),
  get(PATHS.healthz, healthy),
  get(PATHS.ready, healthy),
];

/** The endpoints of the provider, for the HTTP server. */
export function createProvider(parts: ProviderParts): readonly Endpoint[] {
  const { settings, allowedOrigins, rates, now, liveReplicas, pages, model, log } = parts;
  const abandon = (id: string): Promise<void> =>
    model.oidcLogins.abandon(id).catch((err: unknown) => {
      log.warn({ err }, "a login that makes room for others was not removed; it ends by itself");
    });
  const provider: Provider = {
    ...parts,
    openLogins: new OpenLogins({ rates, now, liveReplicas, lifeMs: LOGIN_LIFE_MS, gaveWay: (id) => void abandon(id) }),
    singleRevocations: new RateLimit(SINGLE_REVOCATIONS),
    redirects: new RedirectRules("/auth/callback", allowedOrigins, settings.redirectUris),
    postLogout: new RedirectRules("/auth/logout", allowedOrigins, settings.postLogoutUris),
  };
  const unknownHosts = boundedLog(parts.log);
  const unknownHost = (host: string): ApiError => {
    const known = [...new Set([...parts.servedHosts(), ...settings.hosts])];
    unknownHosts.info(
      { host: shownText(host), known },
      "OIDC was asked under an unknown host: list it in edge.oidc.hosts",
    );
    return new ApiError(404, UNKNOWN_HOST, "404 page not found");
  };
  return ROUTES.map(({ handle, errors, maxBodyBytes = MAX_BODY_BYTES, ...route }) => ({
    ...route,
    maxBodyBytes,
    handle: async (request) => {
      const issuer = issuerOf(request.host, { exact: parts.servedHosts(), more: settings.hosts });
      if (issuer === undefined) throw unknownHost(request.host);
      if (errors === "login" && route.method !== "GET") refuseForeignPage(request, allowedOrigins);
      return handle(provider, { request, issuer, form: answerForm(request.headers.accept) });
    },
    failed: (error, request) => {
      if (error.code === UNKNOWN_HOST) return { status: 404, body: { type: TEXT_TYPE, text: error.message } };
      if (formOf(request) === "page") return pages.failure(error.status, failureText(error));
      return errors === "oauth" ? oauthFailure(error) : loginFailure(error);
    },
  }));
}

const UNKNOWN_HOST = "UNKNOWN_HOST";

/**
 * A browser shows its client certificate for every page that sends a form here: a page of another origin must not prove a factor of a login that its author
 * began, and goes on with. Browsers say where a request comes from (Fetch Metadata Request Headers, section 2.3); programs say nothing.
 * @throws ApiError 403
 */
function refuseForeignPage({ headers }: EndpointRequest, allowedOrigins: readonly string[]): void {
  const { origin, "sec-fetch-site": site = "none" } = headers;
  if (site === "none" || site === "same-origin" || (origin !== undefined && allowedOrigins.includes(origin))) return;
  throw new ApiError(
    403,
    "FOREIGN_PAGE",
    "a page of another site must not log a user in: begin at the page of the login",
  );
}

/** JSON for a request whose `Accept` header is the error. */
function formOf({ headers }: EndpointRequest): AnswerForm {
  try {
    return answerForm(headers.accept);
  } catch (error) {
    if (error instanceof ApiError) return "json";
    throw error;
  }
}

/** RFC 6749, section 3.2: parameters come in the body only. */
async function token(provider: Provider, call: Call): Promise<EndpointAnswer> {
  const form = new Parameters(call.request.form);
  const grant = form.require("grant_type");
  const client = readClient(form, call.request.authorization);
  switch (grant) {
    case GRANTS.code:
      return exchangeCode(provider, call, client, form);
    case GRANTS.refresh:
      return refreshTokens(provider, call, client, form);
    case GRANTS.exchange:
      return exchangeToken(provider, call, client, form);
    default:
      throw oauthError("unsupported_grant_type", `grant_type must be one of ${Object.values(GRANTS).join(", ")}`);
  }
}

/** OpenID Connect Core, section 5.3. */
async function userinfo({ authentication, model }: Provider, { request }: Call): Promise<EndpointAnswer> {
  const session = await authentication.sessionOfBearer(request);
  if ("refused" in session || session.open.authQueries.length > 0) {
    const detail = "refused" in session ? `no valid access token: ${session.refused}` : "a secondary factor is open";
    const headers = { "www-authenticate": 'Bearer realm="openziti-oidc", error="invalid_token"' };
    throw oauthError("invalid_token", "send a valid access token", { detail, headers });
  }
  const { id: sub, name } = await identityOf({ model }, session.id);
  return jsonAnswer(200, { sub, name });
}
