/**
 * The HTTP server of the APIs: mounts the table of operations on connections of a shared TLS port.
 * What it answers, byte for byte, is described in docs/api.md.
 */
import { createServer, type Server } from "node:http";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { apiError, unhandledCause } from "@sallyport/api";
import { boundedLog, type Logger, PROTOCOL_VERSION, remoteAddress } from "@sallyport/wire";
import fastify, { type FastifyInstance } from "fastify";
import { bareFailure, newRequestId } from "./answer.ts";
import { announcedBytes, BodyBudget } from "./body-budget.ts";
import { callerOf } from "./caller.ts";
import { OpenConnections } from "./connection-limit.ts";
import type { AllHandlers, Authenticate } from "./context.ts";
import { crossOrigin } from "./cross-origin.ts";
import { mountPages, type Page } from "./pages.ts";
import { resolvePath } from "./path-alias.ts";
import {
  answerError,
  HTTP_LIMITS,
  type HttpLimits,
  pathOf,
  type ServerContext,
  send,
  type Translate,
  type Within,
} from "./reply.ts";
import { mountOperations } from "./routes.ts";
import { type Upgrade, upgrade, upgradeFor } from "./upgrade.ts";

/** What the server is called on the TLS port. */
export const HTTP_USER = "http";

/** The part of a TLS port that the server needs. */
export interface HttpPort {
  register(user: {
    name: string;
    protocols: string[];
    acceptsNoAlpn: boolean;
    onSocket(socket: TLSSocket): void;
  }): () => void;
}

export interface HttpOptions {
  readonly port: HttpPort;
  readonly handlers: AllHandlers;
  /** What takes over connections that leave HTTP. */
  readonly upgrades?: readonly Upgrade[] | undefined;
  readonly authenticate: Authenticate;
  readonly log: Logger;
  /** Constant for the life of the process: clients take a new one as a restart and send their posture again. */
  readonly instanceId?: string;
  /** Product version, sent in `sallyport-version`. */
  readonly productVersion?: string;
  /** Hold every answer against the contract; for tests. A violation becomes 500 with the difference as its cause. */
  readonly validateResponses?: boolean;
  readonly limits?: Partial<HttpLimits> | undefined;
  /** Errors of what handlers stand on, as callers shall see them; without it they are 500. */
  readonly translate?: Translate;
  /** Surrounds the work of every request. */
  readonly within?: Within;
  /** Origins whose pages may read the answers of the APIs. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Beside the APIs. */
  readonly pages?: readonly Page[];
  /** Told of every answer. */
  readonly onAnswered?: (answer: Answered) => void;
}

/** An answer that was sent. */
export interface Answered {
  /** API and id of the operation; `none` for everything else. */
  readonly api: string;
  readonly operation: string;
  readonly status: number;
  readonly seconds: number;
}

export interface HttpApi {
  readonly instanceId: string;
  /** Connections that are open now. */
  readonly connections: number;
  /** Takes no further connections, waits for running requests up to the limit, then ends what is left. */
  close(): Promise<void>;
}

/** Starts serving. Connections come from `port` with their handshake done; client certificates are not verified there. */
export async function startHttp(options: HttpOptions): Promise<HttpApi> {
  const limits = { ...HTTP_LIMITS, ...options.limits };
  const instanceId = options.instanceId ?? newRequestId();
  const context: ServerContext = {
    handlers: options.handlers,
    authenticate: options.authenticate,
    log: options.log,
    failures: {
      ofStrangers: boundedLog(options.log),
      ofSessions: boundedLog(options.log, { perReason: 10, perMessage: 300 }),
    },
    limits,
    validateResponses: options.validateResponses ?? false,
    translate: options.translate ?? (() => undefined),
    within: options.within ?? ((_request, work) => work()),
    connections: new OpenConnections(limits, options.log),
    commonHeaders: {
      server: `sallyport-controller/${PROTOCOL_VERSION}`,
      "ziti-instance-id": instanceId,
      ...(options.productVersion === undefined ? {} : { "sallyport-version": options.productVersion }),
    },
  };
  const { app, server } = application(context, options);
  await app.ready();
  // Connections arrive through `connection` events, never by listening; this starts the watch over slow requests.
  server.emit("listening");

  const sockets = context.connections;
  const unregister = options.port.register({
    name: HTTP_USER,
    protocols: ["http/1.1"],
    acceptsNoAlpn: true,
    onSocket(socket) {
      if (sockets.admit(socket)) server.emit("connection", socket);
    },
  });

  let closed: Promise<void> | undefined;
  return {
    instanceId,
    get connections() {
      return sockets.size;
    },
    close() {
      closed ??= closeServer(app, server, sockets, unregister, limits.closeTimeoutMs);
      return closed;
    },
  };
}

function application(context: ServerContext, options: HttpOptions): { app: FastifyInstance; server: Server } {
  const { limits } = context;
  const { upgrades = [], pages = [], allowedOrigins = [], onAnswered } = options;
  const origins = new Set(allowedOrigins);
  let server: Server | undefined;
  const app = fastify({
    serverFactory(handler) {
      server = createServer(
        {
          headersTimeout: limits.headersTimeoutMs,
          requestTimeout: limits.requestTimeoutMs,
          keepAliveTimeout: limits.keepAliveTimeoutMs,
          maxHeaderSize: limits.maxHeaderBytes,
          connectionsCheckingInterval: 1_000,
          // A request for another protocol on any other path is answered as if it had not asked.
          shouldUpgradeCallback: (message) => upgradeFor(upgrades, message) !== undefined,
        },
        (message, response) => {
          // What comes behind the last answer of a connection is no request.
          if (message.socket.writable) handler(message, response);
        },
      );
      server.timeout = limits.socketTimeoutMs;
      server.on("upgrade", (message, socket, head) => {
        (socket as Socket).setTimeout(0);
        void upgrade(context, upgrades, message, socket, head);
      });
      return server;
    },
    logger: false,
    exposeHeadRoutes: false,
    bodyLimit: limits.maxBodyBytes,
    rewriteUrl: (message) => resolvePath(message.url ?? "/"),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 512 },
    genReqId: newRequestId,
    return503OnClosing: false,
    clientErrorHandler: (error, socket) => answerClientError(context, error, socket),
    frameworkErrors: (error, request, reply) => answerError(context, request, reply, error),
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => done(null, body));
  // Before anything can fail: a page may read failures, too.
  app.addHook("onRequest", async (request, reply) => {
    const answer = crossOrigin(origins, request.url, request.raw);
    if (answer === undefined) return;
    reply.headers(answer.headers);
    if (!answer.isPreflight) return;
    await send(context, reply, { status: 204, headers: {}, body: "" });
    return reply;
  });
  const bodies = new BodyBudget(limits);
  // Of every request, also those that no operation takes: the framework reads their bodies, too.
  app.addHook("onRequest", async ({ headers }) => {
    if (announcedBytes(headers, limits.maxBodyBytes) > limits.maxBodyBytes) throw apiError("REQUEST_ENTITY_TOO_LARGE");
  });
  // Once the caller is known, and before a byte of the body is read.
  app.addHook("preParsing", async ({ headers, raw, call }, reply) => {
    const length = announcedBytes(headers, limits.maxBodyBytes);
    if (length === 0) return;
    const caller = call?.caller ?? callerOf(raw.socket.remoteAddress ?? "", undefined);
    reply.raw.once("close", bodies.reserve(raw, caller, length));
  });
  app.setErrorHandler((error, request, reply) => answerError(context, request, reply, error));
  app.setNotFoundHandler((request, reply) =>
    answerError(
      context,
      request,
      reply,
      apiError("NOT_FOUND", unhandledCause(`path ${pathOf(request.raw)} was not found`)),
    ),
  );
  if (onAnswered) {
    app.addHook("onResponse", async (request, reply) => {
      const { api = "none", operation = "none" } = request.routeOptions.config;
      onAnswered({ api, operation, status: reply.statusCode, seconds: reply.elapsedTime / 1_000 });
    });
  }
  mountPages(app, context, pages);
  mountOperations(app, context);
  if (server === undefined) throw new Error("fastify made no server");
  return { app, server };
}

/** What cannot be read as HTTP, or takes too long to arrive: answered once on the bare socket, which is then closed. */
function answerClientError(context: ServerContext, error: Error & { code?: string }, socket: Socket): void {
  const isGone = error.code === "ECONNRESET" || error.code === "EPIPE" || !socket.writable;
  if (!isGone) {
    const { status, text } = CLIENT_ERRORS[error.code ?? ""] ?? { status: 400, text: "Bad Request" };
    const answer = bareFailure("COULD_NOT_READ_BODY", status);
    const headers = { ...context.commonHeaders, ...answer.headers, "content-length": String(answer.body.byteLength) };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.end(`HTTP/1.1 ${status} ${text}\r\n${lines.join("")}\r\n${Buffer.from(answer.body).toString()}`);
    context.failures.ofStrangers.info(
      { peer: remoteAddress(socket), status, code: error.code },
      "request could not be read",
    );
  }
  if (isGone || socket.writableFinished) socket.destroy();
  else socket.once("finish", () => socket.destroy());
}

const CLIENT_ERRORS: Readonly<Record<string, { status: number; text: string }>> = {
  HPE_HEADER_OVERFLOW: { status: 431, text: "Request Header Fields Too Large" },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, text: "Request Timeout" },
};

async function closeServer(
  app: FastifyInstance,
  server: Server,
  sockets: Iterable<Socket>,
  unregister: () => void,
  limitMs: number,
): Promise<void> {
  unregister();
  server.closeIdleConnections();
  const ended = Promise.all(
    [...sockets].map((socket) => new Promise<void>((resolve) => socket.once("close", () => resolve()))),
  );
  // A request being handled is the last one on its connection.
  server.keepAliveTimeout = 1;
  const timer = setTimeout(() => {
    for (const socket of sockets) socket.destroy();
  }, limitMs);
  await ended;
  clearTimeout(timer);
  server.close();
  await app.close();
}
