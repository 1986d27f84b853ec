/** Sending answers and failures: every byte that leaves goes through here, and every failure is logged here, once. */

import type { IncomingMessage } from "node:http";
import { ApiError, type ApiName, apiError, BASE_PATHS, unhandledCause } from "@sallyport/api";
import { errorText } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Answer, bareFailure, failure } from "./answer.ts";
import type { BodyLimits } from "./body-budget.ts";
import type { Caller } from "./caller.ts";
import type { ConnectionLimits, OpenConnections } from "./connection-limit.ts";
import type { AllHandlers, Authenticate } from "./context.ts";
import { unsupportedType } from "./media-type.ts";
import { remoteAddressOf } from "./request.ts";

export interface HttpLimits extends ConnectionLimits, BodyLimits {
  /** Bytes of a request body. */
  readonly maxBodyBytes: number;
  /** For the headers of a request to arrive, and for the whole of it. */
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** For a handler to answer; then 503 `TIMEOUT`. */
  readonly handlerTimeoutMs: number;
  /** A connection without a request is closed after this time. */
  readonly keepAliveTimeoutMs: number;
  /** A connection on which nothing moves for this long is closed: a client that does not read an answer must not hold memory for ever. */
  readonly socketTimeoutMs: number;
  readonly maxHeaderBytes: number;
  /** How long `close()` waits for requests that are being handled. */
  readonly closeTimeoutMs: number;
}

export const HTTP_LIMITS: HttpLimits = {
  maxBodyBytes: 1_048_576,
  headersTimeoutMs: 5_000,
  requestTimeoutMs: 15_000,
  handlerTimeoutMs: 10_000,
  keepAliveTimeoutMs: 5_000,
  socketTimeoutMs: 30_000,
  maxHeaderBytes: 65_536,
  closeTimeoutMs: 5_000,
  maxBytesUnderWay: 268_435_456,
  maxBytesUnderWayPerCaller: 33_554_432,
  maxConnections: 10_000,
  maxConnectionsPerAddress: 2_500,
};

/** What all parts of the server share. */
export interface ServerContext {
  readonly handlers: AllHandlers;
  readonly authenticate: Authenticate;
  readonly log: Logger;
  /** For what callers cause as often as they like: those without a session, and those with one. */
  readonly failures: { readonly ofStrangers: Logger; readonly ofSessions: Logger };
  readonly limits: HttpLimits;
  readonly validateResponses: boolean;
  readonly commonHeaders: Readonly<Record<string, string>>;
  readonly translate: Translate;
  readonly within: Within;
  readonly connections: OpenConnections;
}

/** An error that is none of the API's, as the caller shall see it. `isReported`: the code that threw it has logged it. Undefined: it is a 500. */
export type Translate = (error: unknown) => { readonly shown: ApiError; readonly isReported: boolean } | undefined;

/** Runs the work of a caller's request; what it starts may end when `signal` says that the caller no longer waits for the answer. */
export type Within = <T>(request: { signal: AbortSignal; caller: Caller }, work: () => Promise<T>) => Promise<T>;

/** Sends an answer with the headers that every one has. Bytes go out as they are: fastify would add a charset to text. */
export async function send(context: ServerContext, reply: FastifyReply, answer: Answer): Promise<void> {
  reply.code(answer.status).headers(context.commonHeaders).headers(answer.headers);
  // With a serializer, text goes out as bytes do: as it is, and without a charset.
  if (typeof answer.body === "string") reply.serializer(asItIs);
  if (!reply.request.raw.complete) closeInStages(reply.request.raw);
  await reply.send(answer.body);
}

function asItIs(payload: string): string {
  return payload;
}

/** Answers a failure of any origin, and logs it: this is the one place where it is. */
export async function answerError(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  error: unknown,
): Promise<void> {
  const translated = context.translate(error);
  const shown = translated?.shown ?? asApiError(context, error);
  logFailure(context, request, shown, error, translated?.isReported ?? false);
  const isBare = shown.code === "REQUEST_ENTITY_TOO_LARGE";
  const answer = isBare
    ? bareFailure("REQUEST_ENTITY_TOO_LARGE")
    : failure(shown, request.id, apiOf(pathOf(request.raw)), context.validateResponses);
  await send(context, reply, answer);
}

/** The API that a path belongs to, known or not. */
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
  // What went wrong inside is for the log; tests are told.
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
  const log = session === undefined ? failures.ofStrangers : failures.ofSessions;
  const fields = {
    requestId: request.id,
    peer: remoteAddressOf(request.raw),
    ...(session === undefined ? {} : { identityId: session.identityId }),
    method: request.method,
    path: pathOf(request.raw),
    status,
    code,
    ...(cause?.field === undefined ? {} : { field: cause.field, reason: cause.reason }),
    detail,
    ...(status >= 500 && error !== shown ? { err: error } : {}),
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

/** For a caller to read its answer, and to stop sending. */
const LINGER_MS = 1_000;

/**
 * Lets a connection end so that its caller gets the answer to a request that has not arrived whole: a socket that is closed resets the
 * connection for what still comes, and a caller that is sending would see that instead (RFC 9112, section 9.6). Our side ends at once, the
 * other one when the caller has ended it, or after a while; what comes until then is thrown away.
 */
function closeInStages(message: IncomingMessage): void {
  const { socket } = message;
  // What node:http calls behind the last answer.
  socket.destroySoon = () => {
    socket.end();
    message.resume();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
    socket.once("close", () => clearTimeout(timer));
  };
}
