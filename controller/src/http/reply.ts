/** Sends all answers and failures, and logs each failure once. */

import type { IncomingMessage } from "node:http";
import { ApiError, type ApiName, apiError, BASE_PATHS, unhandledCause } from "@sallyport/api";
import { errorText } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Answer, bareFailure, failure } from "./answer.ts";
import type { AllHandlers, Authenticate, Caller } from "./context.ts";
import type { HttpLimits, OpenConnections } from "./limits.ts";
import { remoteAddressOf, unsupportedType } from "./request.ts";

/** What all parts of the server share. */
export interface ServerContext {
  readonly handlers: AllHandlers;
  readonly authenticate: Authenticate;
  readonly log: Logger;
  /** Bounded logs for failures that callers without a session, and with one, can cause at will. */
  readonly failures: { readonly withoutSession: Logger; readonly withSession: Logger };
  readonly limits: HttpLimits;
  readonly validateResponses: boolean;
  readonly commonHeaders: Readonly<Record<string, string>>;
  readonly translate: Translate;
  readonly within: Within;
  readonly connections: OpenConnections;
  /** Each answer is the last one on its connection. */
  isDraining: boolean;
}

/** Another error than the API's, as the caller sees it. `isReported`: the code that threw it has logged it. Undefined: it is a 500. */
export type Translate = (error: unknown) => { readonly shown: ApiError; readonly isReported: boolean } | undefined;

/** Runs the work of a caller's request, which may end when `signal` says that the caller no longer waits. */
export type Within = <T>(request: { signal: AbortSignal; caller: Caller }, work: () => Promise<T>) => Promise<T>;

/** Of a caller that comes too early or too often, where the error does not say when to come again. */
const RETRY_AFTER_SECONDS = "2";

/** Sends an answer with the headers that every one has; 429 and 503 always say when to try again. Bytes go out as they are: fastify would add a charset to text. */
export async function send(context: ServerContext, reply: FastifyReply, answer: Answer): Promise<void> {
  reply.code(answer.status).headers(context.commonHeaders);
  if (answer.status === 429 || answer.status === 503) reply.header("retry-after", RETRY_AFTER_SECONDS);
  if (context.isDraining) reply.header("connection", "close");
  reply.headers(answer.headers);
  // With a serializer, text goes out as bytes do: unchanged, and without a charset.
  if (typeof answer.body === "string") reply.serializer(unchanged);
  if (!reply.request.raw.complete) closeInStages(reply.request.raw);
  // Nothing has no type, which the framework would add.
  await reply.send(answer.body.length === 0 ? undefined : answer.body);
}

function unchanged(payload: string): string {
  return payload;
}

/** Answers a failure of any origin, and logs it. */
export async function answerError(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
): Promise<void> {
  const shown = reportFailure(context, request, error);
  const answer =
    shown.code === "REQUEST_ENTITY_TOO_LARGE"
      ? bareFailure("REQUEST_ENTITY_TOO_LARGE")
      : failure(shown, request.id, apiOf(pathOf(request.raw)), context.validateResponses);
  await send(context, reply, answer);
}

/** Logs a failure of any origin. @returns the error as the caller sees it */
export function reportFailure(context: ServerContext, request: FastifyRequest, error: unknown): ApiError {
  const translated = context.translate(error);
  const shown = translated?.shown ?? asApiError(context, error);
  logFailure(context, request, shown, error, translated?.isReported ?? false);
  return shown;
}

/** The API of a path, also of one that no operation has. */
function apiOf(path: string): ApiName {
  const isUnder = (base: string) => path === base || path.startsWith(`${base}/`);
  return (["fabric", "management"] as const).find((api) => isUnder(BASE_PATHS[api])) ?? "client";
}

function asApiError(context: ServerContext, error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (hasCode(error, "FST_ERR_CTP_BODY_TOO_LARGE")) return apiError("REQUEST_ENTITY_TOO_LARGE");
  if (hasCode(error, "FST_ERR_CTP_INVALID_MEDIA_TYPE")) return unsupportedType({ kind: "none" }, "malformed");
  if (hasCode(error, "FST_ERR_BAD_URL")) {
    return apiError("NOT_FOUND", unhandledCause("the path is not valid percent-encoding"));
  }
  if (hasCode(error, "ECONNRESET") && (error as Error).message === "aborted") {
    return apiError("COULD_NOT_PARSE_BODY", unhandledCause("the connection ended before the body did"));
  }
  if (hasCode(error, "FST_ERR_CTP_INVALID_CONTENT_LENGTH")) {
    return apiError("COULD_NOT_PARSE_BODY", unhandledCause("the body is shorter or longer than Content-Length says"));
  }
  // Only the log and tests get the reason of an internal error.
  const message = errorText(error);
  return apiError("UNHANDLED", context.validateResponses ? unhandledCause(message) : undefined);
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && (error as Error & { code?: unknown }).code === code;
}

/** One line per failure, as long as there are not too many. Never the query (enrollment tokens), headers, bodies or field values. */
function logFailure(
  { failures }: ServerContext,
  request: FastifyRequest,
  shown: ApiError,
  error: unknown,
  isReported: boolean,
): void {
  const { status, code, cause, detail } = shown;
  const session = request.call?.session;
  const log = session === undefined ? failures.withoutSession : failures.withSession;
  const fields = {
    requestId: request.id,
    peer: remoteAddressOf(request.raw),
    ...(session && { identityId: session.identityId }),
    method: request.method,
    path: pathOf(request.raw),
    status,
    code,
    ...(cause?.field !== undefined && { field: cause.field, reason: cause.reason }),
    detail,
    ...(status >= 500 && error !== shown && { err: error }),
  };
  if (isReported) log.debug(fields, "request failed");
  else if (status >= 500) log.error(fields, "request failed");
  else log.info(fields, "request refused");
}

/** The requested path without its query, cut to 256 characters. */
export function pathOf(message: IncomingMessage): string {
  const path = message.url?.split("?", 1)[0] ?? "";
  return path.length > 256 ? `${path.slice(0, 256)}...` : path;
}

export function pathNotFound(message: IncomingMessage): ApiError {
  return apiError("NOT_FOUND", unhandledCause(`path ${pathOf(message)} was not found`));
}

/** For a caller to read its answer and to stop sending. */
const LINGER_MS = 1_000;

/**
 * Ends a connection so that its caller gets the answer to a request that has not arrived whole. A closed socket would reset the connection, and a caller
 * that still sends would see the reset instead (RFC 9112, section 9.6). This side ends at once; what comes until the caller ends its side is dropped.
 */
function closeInStages(message: IncomingMessage): void {
  const { socket } = message;
  // node:http calls this after the last answer.
  socket.destroySoon = () => {
    socket.end();
    message.resume();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
    socket.once("close", () => clearTimeout(timer));
  };
}
