import { errorText, pause } from "@sallyport/async";
import type { Dispatcher } from "undici";
import { Deadline } from "../deadline.ts";
import type { Cluster, Credentials } from "./cluster.ts";
import { Connections } from "./connections.ts";
import { errorOfAnswer, KubeError } from "./errors.ts";

/** The largest answer that is read: a page of 500 objects of a mebibyte and a half would be more, but no such list is asked for. */
const BODY_LIMIT = 256 * 1024 * 1024;
const DEADLINE_MS = 30_000;
/** Times that a request is sent again because the server asked to come later, or because a kept connection had died. */
const REPEATS = 4;

export interface TransportRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With its query. */
  readonly path: string;
  readonly contentType?: string;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  readonly beforeSending?: (() => void) | undefined;
  /** It does no harm when the server gets the request twice. */
  readonly isRepeatable: boolean;
}

/** Counts the answers of the server; `code` is the HTTP status or `<error>`. */
export interface TransportMetrics {
  answered(method: string, code: string, host: string): void;
}

interface TransportOptions {
  readonly userAgent: string;
  readonly metrics?: TransportMetrics | undefined;
  /** Bytes of an answer; default 256 MiB. */
  readonly bodyLimit?: number | undefined;
}

/**
 * HTTP as an API server wants it: one deadline over a request and its repetitions, `Retry-After` obeyed as far as the deadline goes,
 * credentials read again once when they are refused, answers of bounded size.
 */
export class Transport {
  readonly #connections: Connections;
  readonly #server: URL;
  readonly #o: TransportOptions;

  constructor(cluster: Cluster, o: TransportOptions) {
    this.#connections = new Connections(cluster);
    this.#server = cluster.server;
    this.#o = o;
  }

  /** The parsed body of a good answer. */
  async request(request: TransportRequest): Promise<unknown> {
    const { signal, timeoutMs = DEADLINE_MS } = request;
    const until = performance.now() + timeoutMs;
    const deadline = new Deadline(timeoutMs, signal);
    try {
      return await this.#repeat(request, deadline.signal, until);
    } catch (error) {
      signal?.throwIfAborted();
      if (!deadline.isOver || (error instanceof KubeError && !error.isUnreachable)) throw error;
      throw new KubeError({
        status: 0,
        reason: "Timeout",
        message: `${asked(request)}: no answer from ${this.#server.host} within ${timeoutMs} ms`,
        cause: error,
      });
    } finally {
      deadline.release();
    }
  }

  /** The body of a good answer as it comes, until the signal or the server ends it. */
  async stream(path: string, signal: AbortSignal): Promise<Dispatcher.ResponseData["body"]> {
    const request: TransportRequest = { method: "GET", path, signal, isRepeatable: true };
    // Only the beginning has a deadline.
    const opening = new Deadline(DEADLINE_MS);
    try {
      const answer = await this.#authorized(request, AbortSignal.any([signal, opening.signal]), true);
      if (answer.statusCode === 200) return answer.body;
      throw await this.#refusal(request, answer);
    } catch (error) {
      signal.throwIfAborted();
      if (!opening.isOver || (error instanceof KubeError && !error.isUnreachable)) throw error;
      const message = `${asked(request)}: the watch did not begin within ${DEADLINE_MS} ms`;
      throw new KubeError({ status: 0, reason: "Timeout", message, cause: error });
    } finally {
      opening.release();
    }
  }

  async close(): Promise<void> {
    await this.#connections.close();
  }

  async #repeat(request: TransportRequest, signal: AbortSignal, until: number): Promise<unknown> {
    for (let left = REPEATS; ; left -= 1) {
      try {
        return await this.#once(request, signal);
      } catch (error) {
        if (!(error instanceof KubeError) || left === 0 || signal.aborted) throw error;
        const delayMs = repeatAfter(error, request);
        if (delayMs === undefined || performance.now() + delayMs >= until) throw error;
        await pause(delayMs, signal);
        signal.throwIfAborted();
      }
    }
  }

  async #once(request: TransportRequest, signal: AbortSignal): Promise<unknown> {
    const answer = await this.#authorized(request, signal, false);
    if (answer.statusCode >= 300) throw await this.#refusal(request, answer);
    return await this.#json(request, answer);
  }

  /** Sends the request; credentials that are refused (by the server, or the server by them) are read again once. */
  async #authorized(
    request: TransportRequest,
    signal: AbortSignal,
    isWatch: boolean,
  ): Promise<Dispatcher.ResponseData> {
    for (let isFirst = true; ; isFirst = false) {
      const { credentials, requests, watches } = await this.#connections.get();
      request.beforeSending?.();
      try {
        const answer = await (isWatch ? watches : requests).request(this.#wire(request, credentials, signal));
        this.#o.metrics?.answered(request.method, String(answer.statusCode), this.#server.host);
        if (answer.statusCode !== 401 || !isFirst || !(await this.#connections.renew(credentials))) return answer;
        await answer.body.dump();
      } catch (error) {
        if (signal.aborted) throw error;
        this.#o.metrics?.answered(request.method, "<error>", this.#server.host);
        if (isFirst && isHandshake(error) && (await this.#connections.renew(credentials))) continue;
        throw this.#unreachable(request, error);
      }
    }
  }

  #wire(request: TransportRequest, credentials: Credentials, signal: AbortSignal): Dispatcher.RequestOptions {
    const { method, path, contentType, body } = request;
    const prefix = this.#server.pathname.replace(/\/$/, "");
    return {
      method,
      path: prefix + path,
      signal,
      headers: {
        accept: "application/json",
        "user-agent": this.#o.userAgent,
        ...credentials.headers,
        ...(credentials.authorization === undefined ? {} : { authorization: credentials.authorization }),
        ...(body === undefined ? {} : { "content-type": contentType ?? "application/json" }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    };
  }

  async #json(request: TransportRequest, answer: Dispatcher.ResponseData): Promise<unknown> {
    const text = await this.#text(request, answer);
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw new KubeError({
        status: 0,
        reason: "BadAnswer",
        message: `${asked(request)}: ${this.#server.host} answered ${answer.statusCode} with something that is no JSON`,
        cause,
      });
    }
  }

  async #text(request: TransportRequest, answer: Dispatcher.ResponseData): Promise<string> {
    const limit = this.#o.bodyLimit ?? BODY_LIMIT;
    const chunks: Buffer[] = [];
    let length = 0;
    try {
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        length += chunk.length;
        if (length > limit) {
          throw new KubeError({
            status: 0,
            reason: "BadAnswer",
            message: `${asked(request)}: the answer has more than ${limit} bytes`,
          });
        }
        chunks.push(chunk);
      }
    } catch (error) {
      throw error instanceof KubeError || request.signal?.aborted ? error : this.#unreachable(request, error);
    }
    return Buffer.concat(chunks).toString("utf8");
  }

  async #refusal(request: TransportRequest, answer: Dispatcher.ResponseData): Promise<KubeError> {
    const text = await this.#text(request, answer);
    let body: unknown = text;
    try {
      body = JSON.parse(text);
    } catch {
      // Proxies answer in plain text: it is shown as it is.
    }
    return errorOfAnswer(asked(request), answer.statusCode, body, retryAfterMs(answer.headers["retry-after"]));
  }

  #unreachable(request: TransportRequest, cause: unknown): KubeError {
    const why = errorText(cause);
    const advice = isHandshake(cause) ? " (check the authorities and the name in the server's certificate)" : "";
    return new KubeError({
      status: 0,
      reason: "Unreachable",
      message: `${asked(request)}: ${this.#server.host} cannot be reached: ${why}${advice}`,
      cause,
    });
  }
}

function asked({ method, path }: TransportRequest): string {
  return `${method} ${path}`;
}

/** When the request may be sent again, milliseconds; undefined when it may not. */
function repeatAfter(error: KubeError, { isRepeatable }: TransportRequest): number | undefined {
  const { status, retryAfterMs: asksFor } = error;
  if (status === 429 || status === 503) return asksFor;
  // A kept connection that the server had closed meanwhile: another one is made at once.
  const code = codeOf(error.cause);
  return isRepeatable && (code === "UND_ERR_SOCKET" || code === "ECONNRESET" || code === "EPIPE") ? 10 : undefined;
}

/** Seconds or a date. */
export function retryAfterMs(header: string | string[] | undefined): number | undefined {
  const text = Array.isArray(header) ? header[0] : header;
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}

function codeOf(error: unknown): string | undefined {
  return typeof error === "object" && error !== null && "code" in error ? String(error.code) : undefined;
}

/** The certificate of the other side was refused, by us or by the server. */
function isHandshake(error: unknown): boolean {
  const code = codeOf(error) ?? "";
  return /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|EPROTO)/.test(code);
}
