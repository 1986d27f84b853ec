/** The typed client: one method per operation, over HTTPS with kept-alive connections. */

import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { Agent, type AgentOptions, type RequestOptions, request } from "node:https";
import type { ConnectionOptions, TLSSocket } from "node:tls";
import { errorText } from "@sallyport/async";
import { ApiError, type ApiErrorCause } from "../errors.ts";
import type { ApiName, operations } from "../operations/apis.ts";
import { ROUTES } from "./generated/routes.ts";
import type { CallOptions, Calls, Route } from "./types.ts";

export interface ClientOptions {
  /** `https://host:port`, without the path of an API. */
  readonly baseUrl: string;
  /** PEM bundle to trust instead of the system's roots. */
  readonly ca?: string;
  /** Client certificate (leaf and chain) and its key, PEM. */
  readonly cert?: string;
  readonly key?: string;
  /** API session token, sent as `zt-session`. */
  readonly token?: string;
  /** For one call, from start to the last byte; 10,000 ms when not given. */
  readonly timeoutMs?: number;
  /** Further TLS settings, such as `servername`. */
  readonly tls?: ConnectionOptions;
  /** Makes the connections below TLS, such as through a proxy; directly when not given. */
  readonly connect?: Connect;
}

/** A connection to a place, which is to carry TLS; undefined: it is made directly. */
export type Connect = (target: {
  readonly host: string;
  readonly port: number;
}) => Promise<ConnectionOptions["socket"]>;

export type ApiClient<A extends ApiName> = Calls<(typeof operations)[A]> & {
  /** Sets, or with undefined removes, the session token of later calls. */
  setToken(token: string | undefined): void;
  /** Ends the kept-alive connections. Calls under way fail. */
  close(): void;
};

/** The connection failed, or what came back is no answer of this API. The address is in the message. */
export class ApiTransportError extends Error {
  override readonly name = "ApiTransportError";
}

const DEFAULT_TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

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
    setToken: (token: string | undefined) => transport.setToken(token),
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
  readonly #agent: RestAgent;
  readonly #timeoutMs: number;
  #token: string | undefined;

  constructor(api: ApiName, options: ClientOptions) {
    this.#base = new URL(ROUTES[api].basePath, options.baseUrl);
    const { ca, cert, key, tls, connect } = options;
    const credentials = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
    this.#agent = new RestAgent({ keepAlive: true, maxSockets: 16, ...tls, ...credentials }, connect);
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#token = options.token;
  }

  setToken(token: string | undefined): void {
    this.#token = token;
  }

  close(): void {
    this.#agent.destroy();
  }

  async call(route: Route, input: AnyInput, options: CallOptions): Promise<unknown> {
    const url = this.#url(route, input);
    const { body, type } = payload(route, input);
    const headers: Record<string, string> = {
      accept: route.answer === "raw" ? "*/*" : "application/json",
      ...(type === undefined ? {} : { "content-type": type }),
      ...(body === undefined ? {} : { "content-length": String(body.byteLength) }),
      ...(this.#token === undefined ? {} : { "zt-session": this.#token }),
      ...options.headers,
    };
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]);
    const send = () => exchange(url, { method: route.method, agent: this.#agent, headers, signal }, body);
    let answer: HttpAnswer;
    if (!isRepeatable(route)) this.#agent.endRested();
    try {
      answer = await send();
    } catch (error) {
      // The server may have closed a kept connection just then; nothing was lost if the call can be repeated.
      if (!(error instanceof StaleConnectionError) || !isRepeatable(route)) throw transportError(url, error);
      answer = await send().catch((second: unknown) => Promise.reject(transportError(url, second)));
    }
    return result(route, answer, url);
  }

  #url({ path: template }: Route, input: AnyInput): URL {
    const path = template.replaceAll(/\{(\w+)\}/g, (_whole, name: string) =>
      encodeURIComponent(input.params?.[name] ?? ""),
    );
    const url = new URL(this.#base);
    url.pathname += path;
    for (const [name, value] of Object.entries(input.query ?? {})) {
      for (const each of Array.isArray(value) ? value : [value]) {
        if (each !== undefined) url.searchParams.append(name, String(each));
      }
    }
    return url;
  }
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

interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/**
 * How long a kept connection may have rested before a call that cannot be repeated: servers close theirs after 5 s,
 * and a process that was busy reads of it only when the call has been sent.
 */
const MAX_REST_MS = 2_000;

function isRepeatable({ method }: Route): boolean {
  return method !== "POST";
}

/** Keeps connections, and knows since when each has had nothing to do. */
class RestAgent extends Agent {
  readonly #restsSince = new WeakMap<object, number>();
  readonly #connect: Connect | undefined;

  constructor(options: AgentOptions, connect: Connect | undefined) {
    super(options);
    this.#connect = connect;
  }

  override createConnection(options: RequestOptions, callback?: Parameters<Agent["createConnection"]>[1]) {
    if (this.#connect === undefined || callback === undefined) return super.createConnection(options, callback);
    const target = { host: String(options.host), port: Number(options.port) };
    this.#connect(target).then(
      (socket) => {
        callback(null, super.createConnection({ ...options, ...(socket && { socket }) }) as TLSSocket);
      },
      (error: Error) => callback(error, undefined as never),
    );
    return undefined;
  }

  /** False, which its declaration does not know, ends the connection. */
  override keepSocketAlive(socket: TLSSocket): boolean {
    this.#restsSince.set(socket, performance.now());
    return super.keepSocketAlive(socket) as unknown as boolean;
  }

  /** Ends the connections that rested too long for a call that must not meet a closed one. */
  endRested(): void {
    const latest = performance.now() - MAX_REST_MS;
    for (const socket of Object.values(this.freeSockets).flatMap((sockets) => sockets ?? [])) {
      if ((this.#restsSince.get(socket) ?? 0) < latest) socket.destroy();
    }
  }
}

class StaleConnectionError extends Error {}

function exchange(url: URL, options: RequestOptions, body: Buffer | undefined): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, options, (message) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      message.on("data", (chunk: Buffer) => {
        bytes += chunk.byteLength;
        if (bytes > MAX_ANSWER_BYTES) message.destroy(new Error(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`));
        else chunks.push(chunk);
      });
      message.on("error", reject);
      message.on("end", () =>
        resolve({ status: message.statusCode ?? 0, headers: message.headers, body: Buffer.concat(chunks) }),
      );
    });
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      const isStale = outgoing.reusedSocket && error.code === "ECONNRESET";
      reject(isStale ? new StaleConnectionError(error.message) : error);
    });
    outgoing.end(body);
  });
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

function reportedError(answer: HttpAnswer, url: URL): ApiError | ApiTransportError {
  const body = parse(answer.body);
  const error = (body?.error ?? body) as
    | { code?: unknown; message?: unknown; requestId?: string; cause?: ApiErrorCause }
    | undefined;
  if (typeof error?.code !== "string" || typeof error.message !== "string") {
    return new ApiTransportError(`${where(url)} answered ${answer.status} without an API error`);
  }
  const { requestId, cause } = error;
  const detail = causeText(cause);
  const message = detail === undefined ? error.message : `${error.message}: ${detail}`;
  const retryAfter = answer.headers["retry-after"];
  const headers = retryAfter === undefined ? undefined : { "retry-after": retryAfter };
  return new ApiError(answer.status, error.code, message, cause, { requestId, headers });
}

function causeText(cause: ApiErrorCause | undefined): string | undefined {
  if (cause?.field !== undefined) return `${cause.field}: ${cause.reason ?? "invalid"}`;
  return cause?.message;
}

function parse(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString());
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function transportError(url: URL, error: unknown): ApiTransportError {
  const text = errorText(error);
  return new ApiTransportError(`${where(url)} could not be called: ${text}`, { cause: error });
}

/** The address without the query, which may hold an enrollment token. */
function where(url: URL): string {
  return url.origin + url.pathname;
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
