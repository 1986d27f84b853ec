/** The requests of a login by OpenID Connect, to one provider and nowhere else. */
import { Buffer } from "node:buffer";
import type { z } from "zod";
import { ApiError } from "../../errors.ts";
import type { authQuery } from "../../schema/session.ts";
import {
  ApiTransportError,
  bearerHeaders,
  type HttpAnswer,
  HttpsCaller,
  type HttpsOptions,
  parse,
  reportedError,
  retryHeaders,
  where,
} from "../https.ts";
import type { RequestHeaders } from "../types.ts";

export interface OidcLoginOptions extends HttpsOptions {
  /** `https://host:port` */
  readonly baseUrl: string;
  /** Where the provider is below it; what the version document announces. */
  readonly path: string;
}

/** What a login gave. The access token proves the session of API calls and of connections to routers. */
export interface OidcTokens {
  readonly accessToken: string;
  readonly refreshToken: string | undefined;
  /** When the access token ends, by the clock of this machine. */
  readonly expiresAt: number;
  readonly apiSessionId: string;
  readonly identityId: string;
  readonly identityName: string;
  /** For the key of the login's `csrPem`. */
  readonly sessionCertPem?: string;
}

/** A second factor that the network asks for. */
export type AuthQuery = z.output<typeof authQuery>;
type Fields = Readonly<Record<string, string>>;
type Json = Readonly<Record<string, unknown>>;

/** Redirects are read, never followed: each request goes to a path of the provider that we know. */
export class OidcHttp {
  readonly #https: HttpsCaller;
  readonly #base: URL;

  constructor({ baseUrl, path, ...https }: OidcLoginOptions) {
    this.#https = new HttpsCaller(https);
    this.#base = new URL(`${path.replace(/\/+$/, "")}/`, baseUrl);
  }

  close(): void {
    this.#https.close();
  }

  /** The address of an endpoint, for messages. */
  where(endpoint: string): string {
    return where(this.#url(endpoint));
  }

  /** @returns where the provider redirects to */
  async authorize(query: Fields, signal: AbortSignal | undefined): Promise<string> {
    const url = this.#url("authorize");
    url.search = new URLSearchParams(query).toString();
    return this.#location(url, await this.#send("POST", url, {}, "", signal));
  }

  /** @returns where a login that is complete goes on, or what is asked for besides */
  async login(
    method: "password" | "cert" | "ext-jwt" | "totp",
    body: object,
    bearers: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<{ readonly location: string } | { readonly queries: readonly AuthQuery[] }> {
    const url = this.#url(`login/${method}`);
    const headers = { "content-type": "application/json", ...bearerHeaders(bearers) };
    const answer = await this.#send("POST", url, headers, JSON.stringify(body), signal);
    if (answer.status !== 200) return { location: this.#location(url, answer) };
    // OpenZiti 1.6 answers a wrong password with its login page.
    if (answer.headers["content-type"]?.startsWith("text/html") === true) {
      throw new ApiError(401, "REFUSED", `${where(url)} refuses the credentials: it shows its login page again`);
    }
    const queries = parse(answer.body)?.authQueries;
    if (!Array.isArray(queries) || queries.length === 0) {
      throw new ApiTransportError(`${where(url)} answered 200 and asks for nothing`);
    }
    return { queries };
  }

  /** @returns where the provider redirects to at last */
  async callback(location: string, signal: AbortSignal | undefined): Promise<string> {
    const { pathname, search } = new URL(location, this.#base);
    const url = this.#url("authorize/callback");
    if (pathname !== url.pathname) throw new ApiTransportError(`${where(url)} is not where the login goes on`);
    url.search = search;
    return this.#location(url, await this.#send("GET", url, {}, undefined, signal));
  }

  async token(form: Fields, signal: AbortSignal | undefined): Promise<Json> {
    const url = this.#url("oauth/token");
    const answer = await this.#postForm(url, form, signal);
    const json = answer.status === 200 ? parse(answer.body) : undefined;
    if (json === undefined) throw new ApiTransportError(`${where(url)} answered ${answer.status} without tokens`);
    return json;
  }

  async revoke(form: Fields, signal: AbortSignal | undefined): Promise<void> {
    await this.#postForm(this.#url("revoke"), form, signal);
  }

  /**
   * The tokens of an answer. Their signatures are not looked at: they come from the provider itself (OpenID Connect Core, section 3.1.3.7).
   *
   * @param known what an answer to a refresh may leave out
   */
  checked(answer: Json, known?: Pick<OidcTokens, "refreshToken" | "identityName">): OidcTokens {
    const { access_token: accessToken, refresh_token: refreshToken, expires_in: expiresIn } = answer;
    const { sub, z_asid: apiSessionId } = jwtPayload(accessToken) ?? {};
    const { name } = jwtPayload(answer.id_token) ?? {};
    if (
      typeof accessToken !== "string" ||
      typeof expiresIn !== "number" ||
      typeof sub !== "string" ||
      typeof apiSessionId !== "string"
    ) {
      throw new ApiTransportError(`${this.where("oauth/token")} answered with tokens that no controller makes`);
    }
    return {
      accessToken,
      refreshToken: typeof refreshToken === "string" ? refreshToken : known?.refreshToken,
      expiresAt: Date.now() + expiresIn * 1_000,
      apiSessionId,
      identityId: sub,
      identityName: typeof name === "string" ? name : (known?.identityName ?? sub),
      ...(typeof answer.session_cert === "string" && { sessionCertPem: answer.session_cert }),
    };
  }

  #url(endpoint: string): URL {
    return new URL(endpoint, this.#base);
  }

  async #postForm(url: URL, form: Fields, signal: AbortSignal | undefined): Promise<HttpAnswer> {
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    return await this.#send("POST", url, headers, new URLSearchParams(form).toString(), signal);
  }

  async #send(
    method: string,
    url: URL,
    more: RequestHeaders,
    text: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<HttpAnswer> {
    const body = text === undefined ? undefined : Buffer.from(text);
    const headers = {
      accept: "application/json",
      ...more,
      ...(body !== undefined && { "content-length": String(body.byteLength) }),
    };
    const answer = await this.#https.send(url, { method, headers, body, isRepeatable: false, signal });
    if (answer.status >= 400) throw refusal(answer, url);
    return answer;
  }

  #location(url: URL, { status, headers }: HttpAnswer): string {
    const { location } = headers;
    if (status >= 300 && location !== undefined && URL.canParse(location, this.#base)) return location;
    throw new ApiTransportError(`${where(url)} answered ${status} instead of redirecting`);
  }
}

/** The parameters of a redirect to `uri`; undefined when it goes elsewhere. */
export function redirectOf(location: string, uri: string): URLSearchParams | undefined {
  const { origin, pathname, searchParams } = new URL(location, "https://provider");
  return origin + pathname === uri ? searchParams : undefined;
}

/** The claims of a token; undefined when it is none. */
export function jwtPayload(token: unknown): Json | undefined {
  const [, payload] = typeof token === "string" ? token.split(".") : [];
  return payload === undefined ? undefined : parse(Buffer.from(payload, "base64url"));
}

/** OAuth has its own form of errors (RFC 6749, section 5.2), and some providers answer with text alone: the status says enough then. */
function refusal(answer: HttpAnswer, url: URL): ApiError | ApiTransportError {
  const { error, error_description: description } = parse(answer.body) ?? {};
  const headers = retryHeaders(answer);
  if (typeof error === "string") {
    const message = typeof description === "string" ? description : error;
    return new ApiError(answer.status, error, message, undefined, { headers });
  }
  const reported = reportedError(answer, url);
  if (reported instanceof ApiError || answer.status >= 500) return reported;
  return new ApiError(answer.status, "REFUSED", reported.message, undefined, { headers });
}
