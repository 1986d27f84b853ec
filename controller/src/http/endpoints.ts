/**
 * Endpoints beside the operations of the contract: forms, redirects, and errors of another shape. They pass through the same limits as operations: body
 * size before a byte is read, memory for bodies, time, connections, and a log without queries.
 */
import type { X509Certificate } from "node:crypto";
import { ApiError, apiError, fieldError, JSON_TYPE, unhandledCause } from "@sallyport/api";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { callerOf, type ProxiedBy } from "./context.ts";
import { parseJson } from "./input.ts";
import { announcedBytes } from "./limits.ts";
import { answerError, reportFailure, type ServerContext, send } from "./reply.ts";
import { arrivalOf, mediaType } from "./request.ts";
import { ALL_METHODS, decodeBody, refuseMethod, withTimeout } from "./routes.ts";

export const FORM_TYPE = "application/x-www-form-urlencoded";
/** Parameters of a query or form. A megabyte of tiny ones would keep every other request waiting for a third of a second. */
export const MAX_PARAMETERS = 2_000;

/** Names and values of a query or form in the order in which they came: nothing is merged, so that a doubled one can be seen. */
export type Pairs = readonly (readonly [name: string, value: string])[];

/** A request to an endpoint, read and decoded. */
export interface EndpointRequest {
  readonly id: string;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** The `Host` header as it came; empty when there was none. */
  readonly host: string;
  readonly query: Pairs;
  /** Undefined when the body is no form. */
  readonly form: Pairs | undefined;
  /** The parsed body; undefined when it is not JSON. */
  readonly json: unknown;
  /** The first of each name. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Every `Authorization` header as it came. */
  readonly authorization: readonly string[];
  /** From every `Authorization: Bearer` header, in order; empty tokens are left out. */
  readonly bearerTokens: readonly string[];
  /** What the TLS client presented, leaf first: it holds the leaf's key, the rest is unverified. Empty for a proxy. */
  readonly peerCertificates: readonly X509Certificate[];
  readonly proxied: ProxiedBy | undefined;
  /** The ip alone, and `ip:port`. */
  readonly remoteIp: string;
  readonly remoteAddress: string;
  /** Aborted when the caller goes away or the time limit of the request has passed. */
  readonly signal: AbortSignal;
}

export interface EndpointAnswer {
  readonly status: number;
  /** Lower-case names. Without `cache-control` the answer is `no-store`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: { readonly type: string; readonly text: string };
}

export interface Endpoint {
  readonly method: "GET" | "POST" | "DELETE";
  /** The whole path, without parameters. */
  readonly path: string;
  /** What a body may be; with `none` it is ignored. A request without a body needs no type. */
  readonly media: "none" | "form" | "json-or-form";
  readonly maxBodyBytes: number;
  handle(request: EndpointRequest): Promise<EndpointAnswer>;
  /** The answer to a failure in the endpoint's own form. Before the body was read, `form` and `json` are undefined; of an unreadable query nothing is there. */
  failed(error: ApiError, request: EndpointRequest): EndpointAnswer;
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** The path of an endpoint; on routes of endpoints only. */
    endpoint?: string;
  }
  interface FastifyRequest {
    /** Set when a request to an endpoint has arrived, before its body is read. */
    arrived?: { readonly request: EndpointRequest; readonly abort: AbortController };
  }
}

/** Adds a route for every endpoint, and 405 for the other methods of their paths. */
export function mountEndpoints(app: FastifyInstance, context: ServerContext, endpoints: readonly Endpoint[]): void {
  app.decorateRequest("arrived", undefined);
  const { "ziti-instance-id": _ofOperationsOnly, ...commonHeaders } = context.commonHeaders;
  const own: ServerContext = { ...context, commonHeaders };
  const byPath = Map.groupBy(endpoints, ({ path }) => path);
  for (const [url, some] of byPath) {
    for (const endpoint of some) mount(app, own, endpoint);
    const [first] = some;
    if (first === undefined) continue;
    const allowed = some.map(({ method }) => method);
    app.route({
      method: ALL_METHODS.filter((method) => !(allowed as readonly string[]).includes(method)),
      url,
      config: { endpoint: url },
      handler: (request) => refuseMethod(request, allowed),
      errorHandler: (error, request, reply) => answerFailure(own, first, request, reply, error),
    });
  }
}

function mount(app: FastifyInstance, context: ServerContext, endpoint: Endpoint): void {
  app.route({
    method: endpoint.method,
    url: endpoint.path,
    config: { endpoint: endpoint.path },
    bodyLimit: endpoint.maxBodyBytes,
    errorHandler: (error, request, reply) => answerFailure(context, endpoint, request, reply, error),
    // All before a byte of the body is read.
    onRequest: async (request: FastifyRequest, reply: FastifyReply) => {
      if (announcedBytes(request.headers, endpoint.maxBodyBytes) > endpoint.maxBodyBytes) {
        throw apiError("REQUEST_ENTITY_TOO_LARGE");
      }
      checkMedia(endpoint, request);
      const abort = new AbortController();
      reply.raw.once("close", () => {
        if (!reply.raw.writableFinished) abort.abort();
      });
      request.arrived = { request: arrived(request, abort.signal, readPairs("query", queryOf(request))), abort };
    },
    handler: async (request, reply) => {
      const { arrived } = request;
      if (arrived === undefined) throw new Error("an endpoint was called before its request was read");
      const whole: EndpointRequest = { ...arrived.request, ...bodyOf(endpoint, request) };
      const { signal } = arrived.abort;
      const caller = callerOf(whole.remoteIp, undefined);
      const answer = await withTimeout(context.limits.handlerTimeoutMs, arrived.abort, () =>
        context.within({ signal, caller }, () => endpoint.handle(whole)),
      );
      await sendAnswer(context, reply, answer);
      return reply;
    },
  });
}

async function answerFailure(
  context: ServerContext,
  endpoint: Endpoint,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
): Promise<void> {
  try {
    const shown = reportFailure(context, request, error);
    const of = request.arrived?.request ?? arrived(request, new AbortController().signal, []);
    const answer = endpoint.failed(shown, of);
    await sendAnswer(context, reply, { ...answer, headers: { ...shown.headers, ...answer.headers } });
  } catch (second) {
    await answerError(context, request, reply, second);
  }
}

async function sendAnswer(context: ServerContext, reply: FastifyReply, answer: EndpointAnswer): Promise<void> {
  const { status, headers, body } = answer;
  const type: Record<string, string> = body === undefined ? {} : { "content-type": body.type };
  await send(context, reply, { status, headers: { ...NOT_STORED, ...type, ...headers }, body: body?.text ?? "" });
}

/** For caches: answers hold tokens, codes and what a user typed. */
const NOT_STORED = { "cache-control": "no-store", pragma: "no-cache" };

function arrived(request: FastifyRequest, signal: AbortSignal, query: Pairs): EndpointRequest {
  const { raw } = request;
  return {
    ...arrivalOf(raw),
    id: request.id,
    path: raw.url?.split("?", 1)[0] ?? "",
    host: raw.headers.host ?? "",
    authorization: raw.headersDistinct.authorization ?? [],
    ...{ query, signal, form: undefined, json: undefined },
  };
}

function queryOf({ raw }: FastifyRequest): string {
  const at = raw.url?.indexOf("?") ?? -1;
  return at < 0 ? "" : (raw.url?.slice(at + 1) ?? "");
}

/** @throws ApiError 415 for a body of a type that the endpoint does not take */
function checkMedia({ media }: Endpoint, { headers }: FastifyRequest): void {
  if (media === "none" || announcedBytes(headers, 1) === 0) return;
  const type = mediaType(headers["content-type"]);
  if (type === FORM_TYPE || (type === JSON_TYPE && media === "json-or-form")) return;
  const takes = media === "form" ? FORM_TYPE : `${JSON_TYPE} or ${FORM_TYPE}`;
  throw new ApiError(415, "UNSUPPORTED_MEDIA_TYPE", `send the body as ${takes}`);
}

function bodyOf({ media }: Endpoint, request: FastifyRequest): Pick<EndpointRequest, "form" | "json"> {
  const bytes = request.body instanceof Uint8Array ? request.body : new Uint8Array();
  const nothing = { form: undefined, json: undefined };
  if (media === "none") return nothing;
  const type = mediaType(request.headers["content-type"]);
  const text = decodeBody(bytes);
  if (type === FORM_TYPE) return { form: readPairs("body", text), json: undefined };
  return type === JSON_TYPE && text.trim() !== "" ? { form: undefined, json: parseJson(text) } : nothing;
}

/**
 * Decodes a query or form strictly: what is wrongly encoded is refused, not repaired.
 * @throws ApiError 400 for bad percent-encoding, bytes that are no UTF-8, U+0000, and more than {@link MAX_PARAMETERS} parameters
 */
function readPairs(where: "query" | "body", text: string): Pairs {
  const parts = text.split("&", MAX_PARAMETERS + 1);
  if (parts.length > MAX_PARAMETERS) {
    throw apiError("COULD_NOT_VALIDATE", unhandledCause(`the ${where} has more than ${MAX_PARAMETERS} parameters`));
  }
  return parts
    .filter((part) => part !== "")
    .map((part) => {
      const at = part.indexOf("=");
      const name = decoded(where, at < 0 ? part : part.slice(0, at));
      return [name, at < 0 ? "" : decoded(where, part.slice(at + 1))] as const;
    });
}

function decoded(where: "query" | "body", text: string): string {
  if (!/[%+\0]/.test(text)) return text;
  let value: string;
  try {
    value = decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    throw apiError("COULD_NOT_VALIDATE", unhandledCause(`the ${where} is not valid percent-encoded UTF-8`));
  }
  if (value.includes("\u0000")) throw fieldError(where, `the ${where} may not hold the character U+0000`);
  return value;
}
