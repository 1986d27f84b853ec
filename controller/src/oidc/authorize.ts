/** Where a login begins, and where its code is handed over (RFC 6749, section 4.1; OpenID Connect Core, section 3.1.2). */
import { ApiError, MAX_CONFIG_TYPES } from "@sallyport/api";
import type { EndpointAnswer, EndpointRequest } from "../http/endpoints.ts";
import { knownClient } from "./clients.ts";
import { PATHS } from "./discovery.ts";
import { failureText, oauthCodeOf, oauthError } from "./oauth-error.ts";
import { knownScopes, Parameters } from "./parameters.ts";
import type { Call, Provider } from "./provider-parts.ts";
import { withParameters } from "./redirects.ts";

/** A login in which nothing was proved ends after this time. */
export const LOGIN_LIFE_MS = 600_000;
export const MAX_STATE_LENGTH = 1_024;
const MAX_NONCE_LENGTH = 512;
/** Of all together: they are stored before anything is proved. */
export const MAX_CONFIG_TYPE_CHARACTERS = 32_768;
/** SHA-256 as base64url. */
const CHALLENGE = /^[\w-]{43}$/;

/** Begins a login: sends the caller to the endpoint of its first factor. */
export async function authorize(provider: Provider, { request }: Call): Promise<EndpointAnswer> {
  const { authentication, model, openLogins, now } = provider;
  const asked = new Parameters(request.query, request.form);
  // Until both are known to be good, an error must not become a redirect.
  const clientId = knownClient(asked.require("client_id"));
  const redirectUri = provider.redirects.require("redirect_uri", asked.require("redirect_uri"));
  let wanted: WantedLogin;
  try {
    wanted = readWanted(asked);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return errorRedirect(redirectUri, error, asked);
  }
  const from = await authentication.originOf(request);
  const origin = openLogins.admit(from, () => authentication.networkPrint(request.peerCertificates));
  const { remoteAddress } = request;
  const expiresAt = new Date(now().getTime() + LOGIN_LIFE_MS);
  const id = await model.oidcLogins.begin({ clientId, redirectUri, remoteAddress, expiresAt, ...wanted });
  openLogins.add(id, origin);
  return redirect(`${pageFor(asked.get("method"), request)}?authRequestID=${id}`);
}

interface WantedLogin {
  readonly state: string;
  readonly nonce: string;
  readonly codeChallenge: string;
  readonly scopes: string[];
  readonly configTypes: string[];
}

/** @throws ApiError with a code that the redirect carries */
function readWanted(asked: Parameters): WantedLogin {
  const state = asked.short("state", MAX_STATE_LENGTH) ?? "";
  for (const name of ["request", "request_uri"] as const) {
    if (asked.get(name) !== undefined) throw oauthError(`${name}_not_supported`, `send parameters without ${name}`);
  }
  const type = asked.require("response_type");
  if (type !== "code") throw oauthError("unsupported_response_type", "only response_type=code is supported");
  const mode = asked.get("response_mode") ?? "query";
  if (mode !== "query") throw oauthError("invalid_request", "only response_mode=query is supported");
  const scopes = knownScopes(asked.get("scope") ?? "");
  if (!scopes.includes("openid")) throw oauthError("invalid_scope", "ask for the scope openid");
  const codeChallenge = asked.get("code_challenge") ?? "";
  if (!CHALLENGE.test(codeChallenge) || asked.get("code_challenge_method") !== "S256") {
    throw oauthError("invalid_request", "send a code_challenge of 43 characters with code_challenge_method=S256");
  }
  const nonce = asked.short("nonce", MAX_NONCE_LENGTH) ?? "";
  const configTypes = [...asked.all("configTypes")];
  if (configTypes.length > MAX_CONFIG_TYPES) {
    throw oauthError("invalid_request", `send at most ${MAX_CONFIG_TYPES} configTypes`);
  }
  if (configTypes.join("").length > MAX_CONFIG_TYPE_CHARACTERS) {
    throw oauthError("invalid_request", `configTypes have more than ${MAX_CONFIG_TYPE_CHARACTERS} characters`);
  }
  if ((asked.get("prompt") ?? "").split(" ").includes("none")) {
    throw oauthError("login_required", "no login is kept: ask without prompt=none");
  }
  return { state, nonce, codeChallenge, configTypes, scopes: [...scopes] };
}

function errorRedirect(uri: string, error: ApiError, asked: Parameters): EndpointAnswer {
  const states = asked.all("state");
  const [first = ""] = states;
  const state = states.length === 1 && first.length <= MAX_STATE_LENGTH ? first : undefined;
  return redirect(withParameters(uri, { error: oauthCodeOf(error), error_description: failureText(error), state }));
}

const PAGES: Readonly<Record<string, string>> = {
  password: PATHS.username,
  cert: PATHS.certificate,
  "ext-jwt": PATHS.externalToken,
};

/** A client with a certificate logs in with it unless it asks for something else. */
function pageFor(method: string | undefined, { peerCertificates, proxied }: EndpointRequest): string {
  const asked = method !== undefined && Object.hasOwn(PAGES, method) ? PAGES[method] : undefined;
  if (asked !== undefined) return asked;
  const hasCertificate = peerCertificates.length > 0 || (proxied?.clientCertificates.length ?? 0) > 0;
  return hasCertificate ? PATHS.certificate : PATHS.username;
}

/** Hands the code to the client that finished the login: only it knows the id of this request. */
export async function callback({ model, pages }: Provider, { request, form }: Call): Promise<EndpointAnswer> {
  const id = new Parameters(request.query).get("id");
  if (id === undefined) throw oauthError("invalid_request", "id missing");
  const finished = await model.oidcLogins.byCallback(id);
  if (finished === undefined) {
    const open = await model.oidcLogins.find(id);
    if (open === undefined) throw oauthError("invalid_request", "the login is unknown, over or used: begin a new one");
    const parameters = { error: "interaction_required", error_description: "the login is not complete" };
    return redirect(withParameters(open.redirectUri, { ...parameters, state: open.state }));
  }
  const { code, state, redirectUri } = finished;
  // The code first: some clients take all that follows it.
  const target = withParameters(redirectUri, { code, state });
  return form === "page" && !/^https?:/i.test(redirectUri) ? pages.open(target) : redirect(target);
}

/** Exactly 302: clients compare it. */
export function redirect(location: string): EndpointAnswer {
  return { status: 302, headers: { location } };
}
