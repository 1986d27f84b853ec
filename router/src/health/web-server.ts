import { createServer as createHttp1, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttp2, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import type { TLSSocket } from "node:tls";
import { boundedLog, HandshakeError, type Logger, SharedConnections, type TlsPort } from "@sallyport/wire";

/** What an API answers; it takes every method and every path below its own. */
export interface WebAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

export interface WebApi {
  /** The first part of its paths, and the binding's name in the file. */
  readonly binding: string;
  answer(url: URL): WebAnswer;
}

export interface WebServerOptions {
  readonly name: string;
  /** The first one answers paths of none. */
  readonly apis: readonly WebApi[];
  readonly readTimeoutMs: number;
  readonly writeTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly log: Logger;
}

/** One place where a server is reached. */
export interface BoundPort {
  readonly port: TlsPort;
  /** Its name on the port: identities are set by it. */
  readonly user: string;
  /** Sent with every answer as the place to come to in future. */
  readonly newAddress?: string | undefined;
}

type Request = IncomingMessage | Http2ServerRequest;
type Response = ServerResponse | Http2ServerResponse;

/** What HTTP clients offer. */
export const WEB_ALPN = ["h2", "http/1.1"] as const;

const MAX_CONNECTIONS = 256;

/** Serves small read-only documents over HTTPS, in HTTP/1.1 and HTTP/2, on ports that it may share (docs/router/observability.md). */
export class WebServer {
  readonly #o: WebServerOptions;
  readonly #failures: Logger;
  readonly #sockets = new Set<TLSSocket>();
  readonly #stops: (() => void)[] = [];
  readonly #connections: SharedConnections;

  constructor(options: WebServerOptions) {
    this.#o = options;
    this.#failures = boundedLog(options.log);
    const { name, log } = options;
    const shortage = boundedLog(log, { perReason: 1, perMessage: 1 });
    // A client that holds connections without end must not keep out those that ask and go, such as a cluster's probes.
    this.#connections = new SharedConnections(MAX_CONNECTIONS, () =>
      shortage.warn({ server: name }, "too many HTTP connections; the oldest ones are ended"),
    );
  }

  /**
   * Takes HTTP clients on a port. Clients that offer no ALPN come here too unless another user of the port has them already.
   * @throws HandshakeError `ALPN_TAKEN` when another web server is on the port
   */
  serve(bound: BoundPort): void {
    const { name, log } = this.#o;
    const handler = (request: Request, response: Response): void => this.#answer(request, response, bound.newAddress);
    const http1 = createHttp1({ keepAlive: true }, handler);
    const http2 = createHttp2({ maxSessionMemory: 1 }, handler);
    let arriving: TimeLimit | undefined;
    http2.on("session", (session) => {
      // Emitted while the connection is handed over.
      if (arriving !== undefined) limits.set(session, arriving);
      session.on("error", () => session.destroy());
    });
    const onSocket = (socket: TLSSocket): void => {
      this.#connections.add(socket);
      this.#sockets.add(socket);
      const limit = new TimeLimit(socket);
      limits.set(socket, limit);
      socket.once("close", () => {
        limit.clear();
        this.#sockets.delete(socket);
      });
      limit.set(this.#o.readTimeoutMs);
      arriving = limit;
      (socket.alpnProtocol === "h2" ? http2 : http1).emit("connection", socket);
    };
    const user = { name: bound.user, protocols: WEB_ALPN, onSocket };
    try {
      this.#stops.push(bound.port.register({ ...user, acceptsNoAlpn: true }));
    } catch (error) {
      if (!(error instanceof HandshakeError)) throw error;
      this.#stops.push(bound.port.register({ ...user, acceptsNoAlpn: false }));
      log.info({ server: name, port: bound.port.port }, "the port is shared: HTTP clients reach it by ALPN only");
    }
  }

  /** Takes no more clients and ends those that are connected. */
  close(): void {
    for (const stop of this.#stops.splice(0)) stop();
    for (const socket of this.#sockets) socket.destroy();
  }

  #answer(request: Request, response: Response, newAddress: string | undefined): void {
    const { apis, writeTimeoutMs, idleTimeoutMs } = this.#o;
    const limit = limits.get("stream" in request ? (request.stream.session ?? request) : request.socket);
    limit?.set(writeTimeoutMs);
    response.on("finish", () => limit?.set(idleTimeoutMs));
    // What is sent along has no meaning; it is bounded by the time limits.
    request.resume();
    try {
      const url = URL.parse(request.url ?? "/", "https://router");
      if (url === null) {
        // Unauthenticated clients may send anything, and as much of it as they like: nothing for the log.
        response.statusCode = 400;
        end(response, "");
        return;
      }
      const api = apis.find(({ binding }) => isBelow(url.pathname, `/${binding}`)) ?? apis[0];
      if (api === undefined) throw new Error("this server has no API");
      const { status, contentType, body } = api.answer(url);
      response.statusCode = status;
      response.setHeader("content-type", contentType);
      response.setHeader("cache-control", "no-store");
      if (newAddress !== undefined) response.setHeader("ziti-ctrl-address", `https://${newAddress}`);
      response.setHeader("content-length", Buffer.byteLength(body));
      end(response, request.method === "HEAD" ? "" : body);
    } catch (err) {
      this.#failures.error({ server: this.#o.name, err }, "an HTTP request failed");
      response.statusCode = 500;
      end(response, "");
    }
  }
}

/** Both kinds of responses have it, in overloads that TypeScript cannot join. */
function end(response: Response, body: string): void {
  if ("stream" in response) response.end(body);
  else response.end(body);
}

/** Ends a connection unless its next step is done in time. */
class TimeLimit {
  readonly #socket: TLSSocket;
  #timer: NodeJS.Timeout | undefined;

  constructor(socket: TLSSocket) {
    this.#socket = socket;
  }

  set(timeoutMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#socket.destroy(), timeoutMs).unref();
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}

/** By connection, and by session of HTTP/2. */
const limits = new WeakMap<object, TimeLimit>();

function isBelow(path: string, prefix: string): boolean {
  return path === prefix || path.startsWith(`${prefix}/`);
}
