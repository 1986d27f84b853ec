/** A program's own login by OpenID Connect with a controller, without a browser (docs/sdk.md, "Login"). */
import { createHash, randomBytes } from "node:crypto";
import { ApiError } from "../../errors.ts";
import { ApiTransportError } from "../https.ts";
import {
  type AuthQuery,
  jwtPayload,
  OidcHttp,
  type OidcLoginOptions,
  type OidcTokens,
  redirectOf,
} from "./oidc-http.ts";

/** How to prove who we are at first. */
export type FirstFactor =
  | { readonly method: "password"; readonly username: string; readonly password: string }
  /** That of the connection. */
  | { readonly method: "cert" }
  /** A token of another provider. */
  | { readonly method: "ext-jwt"; readonly token: string };

/** What a login says besides who we are. */
export interface LoginDetails {
  readonly configTypes?: readonly string[];
  readonly sdkInfo?: Readonly<Record<string, string>>;
  readonly envInfo?: Readonly<Record<string, string>>;
  /** Asks for a certificate of this session; only providers that announce it give one. */
  readonly csrPem?: string;
}

export type FactorAnswer =
  | { readonly kind: "done"; readonly tokens: OidcTokens }
  | {
      readonly kind: "factors";
      readonly queries: readonly AuthQuery[];
      /** A wrong one throws, and another may be given. @throws ApiError, ApiTransportError */
      answer(proof: { readonly code: string } | { readonly token: string }): Promise<FactorAnswer>;
    };

/** What a controller's version document announces of OpenID Connect; undefined when logins go to `authenticate`. */
export interface AnnouncedOidc {
  readonly path: string;
  /** A login may ask for a certificate of its session. */
  readonly takesCsr: boolean;
}

interface AnnouncedPlace {
  readonly path: string;
  readonly apiBaseUrls?: readonly string[] | null;
}

/** A part of the version document. */
export interface AnnouncingVersion {
  readonly capabilities?: readonly string[] | null;
  readonly apiVersions?: Readonly<Record<string, Readonly<Record<string, AnnouncedPlace>>>>;
}

/** Both the capability and the place must be announced: early controllers of OpenZiti have one without the other. */
export function announcedOidc({ capabilities, apiVersions }: AnnouncingVersion): AnnouncedOidc | undefined {
  const { path, apiBaseUrls } = apiVersions?.["edge-oidc"]?.v1 ?? {};
  if (path === undefined || capabilities?.includes("OIDC_AUTH") !== true) return undefined;
  // OpenZiti 1.6 writes them without a path. Its routers before 1.6.2 keep one access token for each identity: a second program of the same
  // identity takes its place, and the first one's dials fail ("token is malformed"). `authenticate` is served there, too, and has no such limit.
  // But a session of `authenticate` is known to one controller of a cluster of OpenZiti only, whose others have routers end it.
  const isCluster = capabilities.includes("HA_CONTROLLER");
  if (!isCluster && apiBaseUrls?.some((url) => (URL.parse(url)?.pathname ?? "/") !== "/") !== true) return undefined;
  return { path, takesCsr: capabilities.includes("OIDC_AUTH_WITH_CSR") };
}

const CLIENT_ID = "openziti";
/** No program listens there: the redirect is read, not followed. Every provider of OpenZiti knows it. */
const REDIRECT_URI = "http://localhost:20314/auth/callback";
const SCOPE = "openid offline_access";

/** Logs in at one controller, and gets new tokens for old ones. */
export class OidcLogin {
  readonly #http: OidcHttp;

  constructor(o: OidcLoginOptions) {
    this.#http = new OidcHttp(o);
  }

  /** For one piece of work: sessions begin, are renewed and end seldom, so no connection is kept for it. */
  static async once<T>(o: OidcLoginOptions, work: (login: OidcLogin) => Promise<T>): Promise<T> {
    const login = new OidcLogin(o);
    try {
      return await work(login);
    } finally {
      login.close();
    }
  }

  /**
   * Begins a login with its first factor.
   *
   * @throws ApiError when the network refuses it, ApiTransportError for everything else
   */
  async start(factor: FirstFactor, details: LoginDetails = {}, signal?: AbortSignal): Promise<FactorAnswer> {
    return await new LoginAttempt(this.#http, factor, details, signal).start();
  }

  /** New tokens of the same session. @throws ApiError when the session has ended, ApiTransportError for everything else */
  async refresh(tokens: OidcTokens, signal?: AbortSignal): Promise<OidcTokens> {
    const { refreshToken, apiSessionId, identityId } = tokens;
    if (refreshToken === undefined) throw new ApiError(400, "invalid_grant", "the session has no refresh token");
    const form = { grant_type: "refresh_token", client_id: CLIENT_ID, refresh_token: refreshToken };
    const answer = await this.#http.token(form, signal);
    const fresh = this.#http.checked(answer, { refreshToken, identityName: tokens.identityName });
    if (fresh.apiSessionId !== apiSessionId || fresh.identityId !== identityId) {
      throw new ApiTransportError(`${this.#http.where("token")} answered with tokens of another session`);
    }
    return fresh;
  }

  /** Ends the session of these tokens. @throws ApiError, ApiTransportError */
  async end({ refreshToken, accessToken }: OidcTokens, signal?: AbortSignal): Promise<void> {
    await this.#http.revoke({ client_id: CLIENT_ID, token: refreshToken ?? accessToken }, signal);
  }

  /** Ends the kept-alive connections. Calls under way fail. */
  close(): void {
    this.#http.close();
  }
}

class LoginAttempt {
  readonly #http: OidcHttp;
  readonly #factor: FirstFactor;
  readonly #details: LoginDetails;
  readonly #signal: AbortSignal | undefined;
  readonly #verifier = randomText();
  readonly #state = randomText();
  readonly #nonce = randomText();
  #id = "";

  constructor(http: OidcHttp, factor: FirstFactor, details: LoginDetails, signal: AbortSignal | undefined) {
    this.#http = http;
    this.#factor = factor;
    this.#details = details;
    this.#signal = signal;
  }

  async start(): Promise<FactorAnswer> {
    const location = await this.#http.authorize(
      {
        client_id: CLIENT_ID,
        response_type: "code",
        scope: SCOPE,
        state: this.#state,
        nonce: this.#nonce,
        code_challenge: createHash("sha256").update(this.#verifier).digest("base64url"),
        code_challenge_method: "S256",
        redirect_uri: REDIRECT_URI,
        method: this.#factor.method,
      },
      this.#signal,
    );
    const redirect = redirectOf(location, REDIRECT_URI);
    if (redirect !== undefined) throw redirectError(redirect);
    const id = new URL(location, "https://provider").searchParams.get("authRequestID") ?? "";
    if (id === "") throw this.#unexpected("authorize", "a redirect without the id of the login");
    this.#id = id;
    return await this.#prove();
  }

  /** The first factor; again with the tokens of further providers, when these are asked for. */
  async #prove(furtherTokens: readonly string[] = []): Promise<FactorAnswer> {
    const { method } = this.#factor;
    const names = method === "password" ? { username: this.#factor.username, password: this.#factor.password } : {};
    const bearers = method === "ext-jwt" ? [this.#factor.token, ...furtherTokens] : furtherTokens;
    const body = { id: this.#id, ...names, ...this.#details };
    return await this.#next(await this.#http.login(method, body, bearers, this.#signal), bearers);
  }

  async #next(
    answer: { readonly location: string } | { readonly queries: readonly AuthQuery[] },
    bearers: readonly string[],
  ): Promise<FactorAnswer> {
    if ("location" in answer) return { kind: "done", tokens: await this.#finish(answer.location) };
    return {
      kind: "factors",
      queries: answer.queries,
      answer: async (proof) => {
        if ("token" in proof) {
          const further = this.#factor.method === "ext-jwt" ? bearers.slice(1) : bearers;
          return await this.#prove([...further, proof.token]);
        }
        const body = { id: this.#id, code: proof.code };
        return await this.#next(await this.#http.login("totp", body, bearers, this.#signal), bearers);
      },
    };
  }

  async #finish(location: string): Promise<OidcTokens> {
    const end = await this.#http.callback(location, this.#signal);
    const redirect = redirectOf(end, REDIRECT_URI);
    if (redirect === undefined) throw this.#unexpected("authorize/callback", "a redirect elsewhere");
    if (redirect.get("state") !== this.#state)
      throw this.#unexpected("authorize/callback", "the state of another login");
    const code = redirect.get("code");
    if (code === null) throw redirectError(redirect);
    const answer = await this.#http.token(
      {
        grant_type: "authorization_code",
        client_id: CLIENT_ID,
        code,
        code_verifier: this.#verifier,
        redirect_uri: REDIRECT_URI,
      },
      this.#signal,
    );
    const tokens = this.#http.checked(answer);
    const { nonce, sub } = jwtPayload(answer.id_token) ?? {};
    if (nonce !== this.#nonce || sub !== tokens.identityId) {
      throw this.#unexpected("oauth/token", "the id token of another login");
    }
    return tokens;
  }

  #unexpected(endpoint: string, what: string): ApiTransportError {
    return new ApiTransportError(`${this.#http.where(endpoint)} answered with ${what}`);
  }
}

/** What a provider says in a redirect instead of a code (RFC 6749, section 4.1.2.1). */
function redirectError(parameters: URLSearchParams): ApiError {
  const code = parameters.get("error") ?? "server_error";
  return new ApiError(
    400,
    code,
    parameters.get("error_description") ?? "the provider gave neither a code nor a reason",
  );
}

/** 43 characters (RFC 7636, section 4.1). */
function randomText(): string {
  return randomBytes(32).toString("base64url");
}
