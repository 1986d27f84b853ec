/** The typed client: one method per operation, over HTTPS with kept-alive connections. */

import { Buffer } from "node:buffer";
import type { ApiName, operations } from "../operations/apis.ts";
import { ROUTES } from "./generated/routes.ts";
import {
  ApiTransportError,
  bearerHeaders,
  type HttpAnswer,
  HttpsCaller,
  type HttpsOptions,
  parse,
  reportedError,
  where,
} from "./https.ts";
import type { CallOptions, Calls, RequestHeaders, Route } from "./types.ts";

export interface ClientOptions extends HttpsOptions {
  /** `https://host:port`, without the path of an API. */
  readonly baseUrl: string;
  /** Proves the session of the calls; none when absent. */
  readonly credential?: ApiCredential;
  /** Short for the credential of a session of `authenticate`. */
  readonly token?: string;
}

/** What proves the session of a call. */
export interface ApiCredential {
  /** `session`: a token of `authenticate`, sent as `zt-session`. `bearer`: an access token of OpenID Connect. */
  readonly kind: "session" | "bearer";
  readonly token: string;
  /** Tokens of other providers, which are factors of this session: they go along with each call. */
  readonly externalTokens?: readonly string[];
}

/** The headers that carry a credential. */
export function credentialHeaders({ kind, token, externalTokens = [] }: ApiCredential): RequestHeaders {
  const bearers = kind === "bearer" ? [token, ...externalTokens] : externalTokens;
  return {
    ...(kind === "session" && { "zt-session": token }),
    ...bearerHeaders(bearers),
  };
}

export type ApiClient<A extends ApiName> = Calls<(typeof operations)[A]> & {
  /** Sets, or with undefined removes, the session token of later calls. */
  setToken(token: string | undefined): void;
  /** Sets, or with undefined removes, what proves the session of later calls. */
  setCredential(credential: ApiCredential | undefined): void;
  /** Ends the kept-alive connections. Calls under way fail. */
  close(): void;
};

/**
 * Makes a client of one API.
 * Calls throw {@link ApiError} for failures that the server reports and {@link ApiTransportError} for everything else.
 */
export function createClient<A extends ApiName>(api: A, options: ClientOptions): ApiClient<A> {
  const transport = new ApiTransport(api, options);
  const calls = Object.entries(ROUTES[api].routes).map(([id, route]) => [
    id,
    (input: AnyInput = {}, callOptions: CallOptions = {}) => transport.call(route, input, callOptions),
  ]);
  return {
    ...Object.fromEntries(calls),
    setToken: (token: string | undefined) =>
      transport.setCredential(token === undefined ? undefined : { kind: "session", token }),
    setCredential: (credential: ApiCredential | undefined) => transport.setCredential(credential),
    close: () => transport.close(),
  } as ApiClient<A>;
}

interface AnyInput {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  readonly text?: string;
  readonly textType?: string;
}

class ApiTransport {
  readonly #base: URL;
  readonly #https: HttpsCaller;
  #credential: ApiCredential | undefined;

  constructor(api: ApiName, { baseUrl, token, credential, ...https }: ClientOptions) {
    this.#base = new URL(ROUTES[api].basePath, baseUrl);
    this.#https = new HttpsCaller(https);
    this.#credential = credential ?? (token === undefined ? undefined : { kind: "session", token });
  }

  setCredential(credential: ApiCredential | undefined): void {
    this.#credential = credential;
  }

  close(): void {
    this.#https.close();
  }

  async call(route: Route, input: AnyInput, options: CallOptions): Promise<unknown> {
    const url = this.#url(route, input);
    const { body, type } = payload(route, input);
    const headers: RequestHeaders = {
      accept: route.answer === "raw" ? "*/*" : "application/json",
      ...(type === undefined ? {} : { "content-type": type }),
      ...(body === undefined ? {} : { "content-length": String(body.byteLength) }),
      ...(this.#credential === undefined ? {} : credentialHeaders(this.#credential)),
      ...options.headers,
    };
    const { method } = route;
    const { signal, onSent } = options;
    const isRepeatable = method !== "POST";
    return result(route, await this.#https.send(url, { method, headers, body, isRepeatable, signal, onSent }), url);
  }

  #url(route: Route, input: AnyInput): URL {
    const url = new URL(this.#base);
    url.pathname += pathOf(route, input.params);
    for (const [name, value] of Object.entries(input.query ?? {})) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== undefined) url.searchParams.append(name, String(each));
      }
    }
    return url;
  }
}

/** The path of an operation below the base path of its API. */
export function pathOf({ path }: Pick<Route, "path">, params: Readonly<Record<string, string>> = {}): string {
  return path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => encodeURIComponent(params[name] ?? ""));
}

function payload({ body, textType }: Route, input: AnyInput): { body?: Buffer; type?: string } {
  if (body === undefined) return {};
  if (body === "text") return { body: Buffer.from(input.text ?? ""), type: textType ?? "text/plain" };
  if (body === "json-or-text" && input.text !== undefined) {
    return { body: Buffer.from(input.text), type: input.textType ?? "application/x-pem-file" };
  }
  if (input.body === undefined && body === "json-or-text") return {};
  return { body: Buffer.from(JSON.stringify(input.body ?? {})), type: "application/json" };
}

function result(route: Route, answer: HttpAnswer, url: URL): unknown {
  const headers = Object.fromEntries(
    Object.entries(answer.headers).map(([name, value]) => [name, Array.isArray(value) ? value[0] : value]),
  );
  if (answer.status < 200 || answer.status > 299) throw reportedError(answer, url);
  if (route.answer === "raw") return { data: answer.body, contentType: headers["content-type"] ?? "", headers };
  // One action of OpenZiti answers without a body.
  if (answer.body.byteLength === 0) return { data: {}, meta: {}, headers };
  const envelope = parse(answer.body);
  if (envelope !== undefined && route.answer === "bare") return { data: envelope, headers };
  if (envelope === undefined || !("data" in envelope)) {
    throw new ApiTransportError(`${where(url)} answered ${answer.status} with something that is no JSON envelope`);
  }
  return { data: envelope.data, meta: envelope.meta ?? {}, headers };
}

/** The largest page that a server gives. */
const PAGE = 500;

interface ListPage<T> {
  readonly data: readonly T[];
  readonly meta: { readonly pagination: { readonly totalCount: number } };
}

/**
 * All entities of a list, page by page. Entities that come and go meanwhile move the pages: what appears twice is given once, and
 * one that slipped through is found the next time.
 */
export async function listAll<T extends { readonly id: string }>(
  page: (query: { readonly limit: number; readonly offset: number }) => Promise<ListPage<T>>,
): Promise<T[]> {
  const found = new Map<string, T>();
  for (let offset = 0; ; ) {
    const { data, meta } = await page({ limit: PAGE, offset });
    const before = found.size;
    for (const entity of data) found.set(entity.id, entity);
    offset += data.length;
    // A server repeats the last page beyond its greatest offset.
    if (offset >= meta.pagination.totalCount || found.size === before) return [...found.values()];
  }
}
