/** Routes derived from the table: per operation authentication, media types, input, the handler, and its answer. */
import type { IncomingMessage } from "node:http";
import {
  type ApiName,
  accepts,
  apiError,
  BASE_PATHS,
  fieldError,
  JSON_TYPE,
  type ListQuery,
  type Method,
  type Operation,
  operations,
  pagingOf,
  parseListQuery,
  unauthorized,
  unhandledCause,
} from "@sallyport/api";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { expiryHeaders, success } from "./answer.ts";
import { type Refusal, refusedAs } from "./challenges.ts";
import { type ApiSessionContext, type Caller, callerOf, type RequestInfo } from "./context.ts";
import { holdsNul, parseJson, readBody, readQuery, single } from "./input.ts";
import { announcedBytes } from "./limits.ts";
import { type ServerContext, send } from "./reply.ts";
import { bodyFormat, mediaType, notAcceptable, requestInfo, unsupportedType } from "./request.ts";

export const ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;

/** What every handler is once its types are proven by the table of handlers. */
type AnyHandler = (context: {
  params: unknown;
  query: unknown;
  body: unknown;
  list: ListQuery | undefined;
  session: ApiSessionContext | undefined;
  request: RequestInfo;
}) => Promise<unknown>;

declare module "fastify" {
  interface FastifyContextConfig {
    /** Which operation a route serves; on routes of operations only. */
    api?: ApiName;
    operation?: string;
  }
  interface FastifyRequest {
    /** Set before the body is read, for operations only. */
    call?: {
      readonly info: RequestInfo;
      readonly session: ApiSessionContext | undefined;
      readonly caller: Caller;
      readonly abort: AbortController;
    };
  }
}

/** Adds a route for every operation of every API, and 405 for the other methods of their paths. */
export function mountOperations(app: FastifyInstance, context: ServerContext): void {
  app.decorateRequest("call", undefined);
  for (const api of Object.keys(operations) as ApiName[]) {
    const handlers = context.handlers[api] as unknown as Readonly<Record<string, AnyHandler>>;
    const methods = new Map<string, Method[]>();
    for (const [id, operation] of Object.entries<Operation>(operations[api])) {
      const url = BASE_PATHS[api] + operation.path.replaceAll(/\{(\w+)\}/g, ":$1");
      methods.set(url, [...(methods.get(url) ?? []), operation.method]);
      const handler = handlers[id];
      if (handler === undefined) throw new Error(`no handler for ${api} operation ${id}`);
      mount(app, context, { api, id, url }, operation, handler);
    }
    for (const [url, allowed] of methods) {
      const others = ALL_METHODS.filter((method) => !(allowed as readonly string[]).includes(method));
      app.route({ method: others, url, handler: (request) => refuseMethod(request, allowed) });
    }
  }
}

export async function refuseMethod(request: FastifyRequest, allowed: readonly Method[]): Promise<never> {
  const cause = unhandledCause(`method ${request.method} is not allowed, but [${allowed.join(",")}] are`);
  throw apiError("METHOD_NOT_ALLOWED", cause, { headers: { allow: allowed.join(", ") } });
}

function mount(
  app: FastifyInstance,
  context: ServerContext,
  { api, id, url }: { readonly api: ApiName; readonly id: string; readonly url: string },
  operation: Operation,
  handler: AnyHandler,
): void {
  const produces = [...textTypesOf(operation), JSON_TYPE];
  app.route({
    method: operation.method,
    url,
    config: { api, operation: id },
    // In this order, all before a byte of the body is read.
    onRequest: async (request: FastifyRequest, reply: FastifyReply) => {
      const abort = new AbortController();
      // An answer that went out whole needs no signal any more, and making one for each request is dear.
      reply.raw.once("close", () => {
        if (!reply.raw.writableFinished) abort.abort();
      });
      const { path } = operation;
      const info = requestInfo(request.raw, { id: request.id, api, operation, path, signal: abort.signal });
      const found = operation.issuesSession ? undefined : await context.authenticate(info);
      const session = found === undefined || "refused" in found ? undefined : found;
      const caller = callerOf(info.remoteIp, session);
      context.connections.usedBy(request.raw.socket, caller);
      if (session?.kind === "legacy") reply.headers(expiryHeaders(session));
      authorize(operation, found);
      request.call = { info, session, caller, abort };
      checkMedia(operation, request, produces);
    },
    handler: async (request, reply) => {
      const { call } = request;
      if (call === undefined) throw new Error("an operation was called before its session was looked up");
      if (holdsNul(request.params)) throw apiError("NOT_FOUND", unhandledCause("no id holds the character U+0000"));
      const raw = request.query as Readonly<Record<string, unknown>>;
      const paging = pagingOf(operation.response);
      const list = paging === undefined ? undefined : listQuery(raw, paging.defaultLimit);
      const query = readQuery(operation, raw);
      // The framework reads none with GET.
      if (operation.method === "GET" && operation.body.kind !== "none") {
        request.body = await readAll(request.raw, context.limits.maxBodyBytes);
      }
      const body = bodyOf(operation, request);
      const result = await withTimeout(context.limits.handlerTimeoutMs, call.abort, () =>
        context.within({ signal: call.abort.signal, caller: call.caller }, () =>
          handler({ params: request.params, query, body, list, session: call.session, request: call.info }),
        ),
      );
      await send(context, reply, success(operation, result, list, context.validateResponses));
      return reply;
    },
  });
}

function textTypesOf({ response }: Operation): readonly string[] {
  if (response.kind === "raw") return response.contentTypes;
  return response.kind === "detail" ? (response.textTypes ?? []) : [];
}

/** @throws ApiError 401 when the rule of the operation is not met; only one without a session says how to authenticate */
function authorize({ auth }: Operation, found: ApiSessionContext | Refusal | undefined): void {
  if (auth === "public") return;
  if (found === undefined) throw unauthorized("no valid session");
  if ("refused" in found) throw refusedAs(found);
  if (auth === "partial") return;
  if (!found.isFullyAuthenticated) throw unauthorized("a secondary factor is open");
  if (auth === "admin" && !found.isAdmin) throw unauthorized("not an administrator");
}

function checkMedia(operation: Operation, request: FastifyRequest, produces: readonly string[]): void {
  const { accept } = request.headers;
  if (!produces.some((type) => accepts(accept, type))) {
    const isText = bodyFormat(operation.body, mediaType(request.headers["content-type"])) === "text";
    if (operation.body.kind === "json-or-text" && isText) throw apiError("UNSUPPORTED_MEDIA");
    throw notAcceptable(accept ?? "", produces);
  }
  if (announcedBytes(request.headers, 1) === 0 || operation.body.kind === "none") return;
  const type = mediaType(request.headers["content-type"]);
  if (bodyFormat(operation.body, type) === undefined) throw unsupportedType(operation.body, type);
}

function listQuery(raw: Readonly<Record<string, unknown>>, defaultLimit: number): ListQuery {
  const [limit, offset, filter, sort] = ["limit", "offset", "filter", "sort"].map((name) => single(raw[name]));
  return parseListQuery({ limit, offset, filter, sort }, defaultLimit);
}

function bodyOf(operation: Operation, request: FastifyRequest): unknown {
  const { body } = operation;
  if (body.kind === "none") return undefined;
  const bytes = request.body instanceof Uint8Array ? request.body : new Uint8Array();
  const text = decodeBody(bytes);
  if (body.kind === "text") {
    if (text.trim() === "") throw fieldError(body.name, `${body.name} in body is required`);
    return text;
  }
  if (body.kind === "json") {
    if (text.trim() === "") return readBody(body.schema, body.required ? undefined : emptyBody(body.schema));
    return readBody(body.schema, parseJson(text));
  }
  const isText = bodyFormat(body, mediaType(request.headers["content-type"])) === "text";
  if (isText) return { text };
  return text.trim() === "" ? {} : { json: readBody(body.schema, parseJson(text)) };
}

async function readAll(message: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let length = 0;
  // A destroyed request has no socket to be answered on.
  for await (const chunk of message.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.byteLength;
    if (length > maxBytes) throw apiError("REQUEST_ENTITY_TOO_LARGE");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function emptyBody(schema: z.ZodType): unknown {
  return schema instanceof z.ZodArray ? [] : {};
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });

export function decodeBody(bytes: Uint8Array): string {
  try {
    return UTF8.decode(bytes);
  } catch {
    throw apiError("COULD_NOT_PARSE_BODY", unhandledCause("the body is not valid UTF-8"));
  }
}

/**
 * Ends the wait and aborts the signal of the handler when the time is up. A request is not begun when its caller has gone, who may have asked another
 * controller since: as callers do when a process stood still with the request unread.
 */
export async function withTimeout<T>(limitMs: number, abort: AbortController, run: () => Promise<T>): Promise<T> {
  if (abort.signal.aborted) {
    throw apiError("COULD_NOT_PARSE_BODY", unhandledCause("the connection ended before the request was begun"));
  }
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      const error = apiError("TIMEOUT", undefined, { headers: { "retry-after": "1" } });
      reject(error);
      abort.abort(error);
    }, limitMs);
  });
  try {
    return await Promise.race([run(), late]);
  } finally {
    clearTimeout(timer);
  }
}
