/** HTTPS with kept-alive connections and limits of time and size, for what calls a controller. */

import { Buffer } from "node:buffer";
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { Agent, type AgentOptions, type RequestOptions, request } from "node:https";
import { type ConnectionOptions, TLSSocket } from "node:tls";
import { type CertificateDates, presentedCertificate, tlsErrorText } from "@sallyport/async";
import { ApiError, type ApiErrorCause } from "../errors.ts";
import type { Connect } from "./connect.ts";
import type { RequestHeaders } from "./types.ts";

/** How a server is reached, and who it is. */
export interface HttpsOptions {
  /** PEM bundle to trust instead of the system's roots. */
  readonly ca?: string;
  /** Client certificate (leaf and chain) and its key, PEM. */
  readonly cert?: string;
  readonly key?: string;
  /** For one call, from start to the last byte; 10,000 ms when not given. */
  readonly timeoutMs?: number;
  /** Further TLS settings, such as `servername`. */
  readonly tls?: ConnectionOptions;
  /** Makes the connections below TLS, such as through a proxy; directly when not given. */
  readonly connect?: Connect;
}

/** The connection failed, or what came back is no answer of this API. The address is in the message. */
export class ApiTransportError extends Error {
  override readonly name = "ApiTransportError";
}

const DEFAULT_TIMEOUT_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

export interface HttpAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** One request; `isRepeatable`: a second one does no harm. */
interface HttpsCall {
  readonly method: string;
  readonly headers: RequestHeaders;
  readonly body: Buffer | undefined;
  readonly isRepeatable: boolean;
  readonly signal: AbortSignal | undefined;
  /** Called when a connection is there: from then on the server may have got the request. */
  readonly onSent?: (() => void) | undefined;
}

/** Calls one server. */
export class HttpsCaller {
  readonly #agent: RestAgent;
  readonly #timeoutMs: number;
  #isClosed = false;

  constructor({ ca, cert, key, tls, connect, timeoutMs }: HttpsOptions) {
    const credentials = { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
    this.#agent = new RestAgent({ keepAlive: true, maxSockets: 16, ...tls, ...credentials }, connect);
    this.#timeoutMs = timeoutMs ?? DEFAULT_TIMEOUT_MS;
  }

  /** @throws ApiTransportError */
  async send(url: URL, { method, headers, body, isRepeatable, signal: given, onSent }: HttpsCall): Promise<HttpAnswer> {
    const timeout = AbortSignal.timeout(this.#timeoutMs);
    const signal = given === undefined ? timeout : AbortSignal.any([timeout, given]);
    // Node takes a list for every name; its declaration does not know it.
    const options = { method, agent: this.#agent, headers: headers as OutgoingHttpHeaders, signal };
    const send = () => exchange(url, options, body, onSent);
    if (!isRepeatable) this.#agent.endRested();
    try {
      return await send();
    } catch (error) {
      // The server may have closed a kept connection just then; nothing was lost if the call can be repeated.
      const canRepeat = error instanceof StaleConnectionError && isRepeatable && !this.#isClosed;
      if (!canRepeat) throw transportError(url, error);
      return await send().catch((second: unknown) => Promise.reject(transportError(url, second)));
    }
  }

  /** Ends the kept-alive connections. Calls under way fail. */
  close(): void {
    this.#isClosed = true;
    this.#agent.destroy();
  }
}

/**
 * How long a kept connection may have rested before a call that cannot be repeated: servers close theirs after 5 s,
 * and a process that was busy reads of it only when the call has been sent.
 */
const MAX_REST_MS = 2_000;

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

function exchange(
  url: URL,
  options: RequestOptions,
  body: Buffer | undefined,
  onSent: (() => void) | undefined,
): Promise<HttpAnswer> {
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
    let presented: (() => CertificateDates | undefined) | undefined;
    outgoing.once("socket", (socket) => {
      if (onSent !== undefined && outgoing.reusedSocket) onSent();
      else if (onSent !== undefined) socket.once("secureConnect", onSent);
      if (socket.connecting && socket instanceof TLSSocket) presented = presentedCertificate(socket);
    });
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      const isStale = outgoing.reusedSocket && error.code === "ECONNRESET";
      reject(isStale ? new StaleConnectionError(error.message) : transportError(url, error, presented?.()));
    });
    outgoing.end(body);
  });
}

/** The error that an answer reports. */
export function reportedError(answer: HttpAnswer, url: URL): ApiError | ApiTransportError {
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
  return new ApiError(answer.status, error.code, message, cause, { requestId, headers: retryHeaders(answer) });
}

/** What the error of an answer keeps of its headers. */
export function retryHeaders({ headers }: HttpAnswer): Readonly<Record<string, string>> | undefined {
  const retryAfter = headers["retry-after"];
  return retryAfter === undefined ? undefined : { "retry-after": retryAfter };
}

/** The header with these tokens: each is a header of its own. */
export function bearerHeaders(tokens: readonly string[]): RequestHeaders {
  return tokens.length > 0 ? { authorization: tokens.map((token) => `Bearer ${token}`) } : {};
}

function causeText(cause: ApiErrorCause | undefined): string | undefined {
  if (cause?.field !== undefined) return `${cause.field}: ${cause.reason ?? "invalid"}`;
  return cause?.message;
}

/** The JSON object in it. */
export function parse(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString());
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function transportError(url: URL, error: unknown, presented?: CertificateDates): ApiTransportError {
  if (error instanceof ApiTransportError) return error;
  const text = tlsErrorText(error, presented);
  return new ApiTransportError(`${where(url)} could not be called: ${text}`, { cause: error });
}

/** The address without the query, which may hold an enrollment token. */
export function where(url: URL): string {
  return url.origin + url.pathname;
}
