/**
 * The HTTP server of the APIs: mounts the table of operations on connections of a shared TLS port.
 * What it answers, byte for byte, is described in docs/api.md.
 */
import { createServer, type Server } from "node:http";
import type { Socket } from "node:net";
import { apiError } from "@sallyport/api";
import { boundedLog, type Logger, PROTOCOL_VERSION, remoteAddress, type TlsPort } from "@sallyport/wire";
import fastify, { type FastifyInstance } from "fastify";
import { bareFailure, bareResponse, newRequestId } from "./answer.ts";
import { type AllHandlers, type Authenticate, callerOf } from "./context.ts";
import { crossOrigin } from "./cross-origin.ts";
import { type Endpoint, mountEndpoints } from "./endpoints.ts";
import { announcedBytes, BodyBudget, HTTP_LIMITS, type HttpLimits, OpenConnections } from "./limits.ts";
import { mountPages, type Page } from "./pages.ts";
import { answerError, pathNotFound, type ServerContext, send, type Translate, type Within } from "./reply.ts";
import { resolvePath } from "./request.ts";
import { mountOperations } from "./routes.ts";
import { type Upgrade, upgrade, upgradeFor } from "./upgrade.ts";

/** The name of the server on the TLS port. */
export const HTTP_USER = "http";

export interface HttpOptions {
  readonly port: Pick<TlsPort, "register">;
  readonly handlers: AllHandlers;
  readonly upgrades?: readonly Upgrade[] | undefined;
  readonly authenticate: Authenticate;
  readonly log: Logger;
  /** The `ziti-instance-id`: on a new one clients assume that what they reported is forgotten, and send their posture again. Default: a new one. */
  readonly instanceId?: string;
  /** Product version, sent in `sallyport-version`. */
  readonly productVersion?: string;
  /** Check every answer against the contract, for tests. A violation becomes 500 with the difference as its cause. */
  readonly validateResponses?: boolean;
  readonly limits?: Partial<HttpLimits> | undefined;
  readonly translate?: Translate;
  readonly within?: Within;
  /** Origins whose pages may read the answers of the APIs. */
  readonly allowedOrigins?: readonly string[] | undefined;
  readonly pages?: readonly Page[];
  /** Beside the operations of the contract. */
  readonly endpoints?: readonly Endpoint[] | undefined;
  readonly onAnswered?: (answer: Answered) => void;
}

/** An answer that was sent. */
export interface Answered {
  /** API and id of the operation; `endpoint` and the path of an endpoint; `none` for everything else. */
  readonly api: string;
  readonly operation: string;
  readonly status: number;
  readonly seconds: number;
}

export interface HttpApi {
  readonly instanceId: string;
  /** Connections that are open now. */
  readonly connections: number;
  /** From now on each answer is the last one on its connection: clients go on at another controller. */
  drain(): void;
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
      withoutSession: boundedLog(options.log),
      withSession: boundedLog(options.log, { perReason: 10, perMessage: 300 }),
    },
    limits,
    validateResponses: options.validateResponses ?? false,
    translate: options.translate ?? (() => undefined),
    within: options.within ?? ((_request, work) => work()),
    connections: new OpenConnections(limits, options.log),
    isDraining: false,
    commonHeaders: {
      server: `sallyport-controller/${PROTOCOL_VERSION}`,
      "ziti-instance-id": instanceId,
      ...(options.productVersion !== undefined && { "sallyport-version": options.productVersion }),
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
    drain() {
      context.isDraining = true;
    },
    close() {
      closed ??= closeServer(app, server, sockets, unregister, limits.closeTimeoutMs);
      return closed;
    },
  };
}

function application(context: ServerContext, options: HttpOptions): { app: FastifyInstance; server: Server } {
  const { limits } = context;
  const { upgrades = [], pages = [], endpoints = [], allowedOrigins = [], onAnswered } = options;
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
  // First, so that a page can read failures, too.
  app.addHook("onRequest", async (request, reply) => {
    const answer = crossOrigin(origins, request.url, request.raw);
    if (answer === undefined) return;
    reply.headers(answer.headers);
    if (!answer.isPreflight) return;
    await send(context, reply, { status: 204, headers: {}, body: "" });
    return reply;
  });
  const bodies = new BodyBudget(limits);
  // For every request: the framework also reads bodies that no operation takes.
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
  app.setNotFoundHandler((request, reply) => answerError(context, request, reply, pathNotFound(request.raw)));
  if (onAnswered) {
    app.addHook("onResponse", async (request, reply) => {
      const { endpoint, api = "none", operation = "none" } = request.routeOptions.config;
      const of = endpoint === undefined ? { api, operation } : { api: "endpoint", operation: endpoint };
      onAnswered({ ...of, status: reply.statusCode, seconds: reply.elapsedTime / 1_000 });
    });
  }
  mountPages(app, context, pages);
  mountEndpoints(app, context, endpoints);
  mountOperations(app, context);
  if (server === undefined) throw new Error("fastify made no server");
  return { app, server };
}

/** Answers a request that is no HTTP, or takes too long to arrive, on the bare socket, and closes it. */
function answerClientError(context: ServerContext, error: Error & { code?: string }, socket: Socket): void {
  const isGone = error.code === "ECONNRESET" || error.code === "EPIPE" || !socket.writable;
  if (!isGone) {
    const { status, text } = CLIENT_ERRORS[error.code ?? ""] ?? { status: 400, text: "Bad Request" };
    const answer = bareFailure("COULD_NOT_READ_BODY", status);
    const headers = { ...context.commonHeaders, ...answer.headers };
    socket.end(bareResponse({ ...answer, headers }, text));
    context.failures.withoutSession.info(
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
