import type { X509Certificate } from "node:crypto";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { Agent, request } from "node:https";
import { isIP } from "node:net";
import { pipeline } from "node:stream";
import type { TLSSocket } from "node:tls";
import {
  boundedLog,
  controllerCheck,
  type HandshakeTurns,
  type HostPort,
  type Identity,
  type Logger,
  ProxiedRequestHeader,
  peerOf,
  SharedConnections,
  TlsPort,
} from "@sallyport/wire";

export interface ApiProxyOptions {
  readonly listener: HostPort;
  readonly upstream: HostPort;
  readonly identity: Identity;
  /** As for a `TlsPort`. */
  readonly turns?: HandshakeTurns;
  readonly log: Logger;
}

/** A controller that takes longer than this for a request is given up. */
const ANSWER_MS = 60_000;
const MAX_CONNECTIONS = 1_000;
/** Of one connection; a proxy passes on no others. */
const HOP_BY_HOP = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
/** Where a body ends, and whom it is for: `Connection` must not take these away. */
const NEVER_HOP_BY_HOP = new Set(["content-length", "host"]);
const { PassedOnAt: PROXIED_AT, ClientCertificate: CLIENT_CERTIFICATE } = ProxiedRequestHeader;

/**
 * The controller's API at this router (docs/protocol/edge.md, "API proxy"): HTTPS with the router's server certificate, passed
 * on with its client certificate. The controller is told who the client is: the certificates it presented go into headers,
 * which clients cannot forge, since theirs are removed.
 */
export class ApiProxy {
  readonly #o: ApiProxyOptions;
  readonly #log: Logger;
  readonly #port: TlsPort;
  readonly #server: Server;
  #agent: Agent;

  private constructor(options: ApiProxyOptions, port: TlsPort) {
    this.#o = options;
    this.#log = boundedLog(options.log);
    this.#port = port;
    this.#agent = agentFor(options.identity);
    this.#server = createServer((incoming, outgoing) => this.#pass(incoming, outgoing));
    // Connections come from the port; this starts the watch over slow requests.
    this.#server.emit("listening");
    const connections = new SharedConnections(MAX_CONNECTIONS);
    port.register({
      name: "API proxy",
      protocols: ["http/1.1"],
      acceptsNoAlpn: true,
      onSocket: (socket) => {
        connections.add(socket);
        this.#server.emit("connection", socket);
      },
    });
  }

  /** @throws Error as `net.Server.listen` gives it */
  static async listen(options: ApiProxyOptions): Promise<ApiProxy> {
    const { listener, identity, turns, log } = options;
    return new ApiProxy(options, await TlsPort.listen({ ...listener, identity, log, ...(turns && { turns }) }));
  }

  get port(): number {
    return this.#port.port;
  }

  /** New connections, to both sides, use `identity`. */
  setIdentity(identity: Identity): void {
    this.#port.setIdentity(identity);
    const old = this.#agent;
    this.#agent = agentFor(identity);
    old.destroy();
  }

  async close(): Promise<void> {
    await this.#port.close();
    this.#server.close();
    this.#agent.destroy();
  }

  #pass(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { upstream } = this.#o;
    const { method = "GET", url = "/" } = incoming;
    const onward = request({
      host: upstream.host,
      port: upstream.port,
      servername: isIP(upstream.host) === 0 ? upstream.host : "",
      method,
      path: url,
      headers: onwardHeaders(incoming),
      agent: this.#agent,
      timeout: ANSWER_MS,
    });
    const fail = (error: Error): void => {
      const fields = { upstream, method, reason: error.message };
      this.#log.warn(fields, "the controller's API could not be reached for a client");
      if (outgoing.headersSent) outgoing.destroy();
      else {
        const body = JSON.stringify({ error: { code: "BAD_GATEWAY", message: "the controller cannot be reached" } });
        outgoing.writeHead(502, { "content-type": "application/json" }).end(body);
      }
    };
    onward.on("timeout", () => onward.destroy(new Error(`no answer within ${ANSWER_MS} ms`)));
    onward.on("error", fail);
    onward.on("response", (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, passable(answer.headers));
      pipeline(answer, outgoing, () => {});
    });
    outgoing.on("close", () => {
      if (!outgoing.writableFinished) onward.destroy();
    });
    pipeline(incoming, onward, () => {});
  }
}

function agentFor(identity: Identity): Agent {
  return new Agent({
    keepAlive: true,
    secureContext: identity.clientContext(),
    checkServerIdentity: controllerCheck(identity.anchors),
  });
}

function passable(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const named = new Set((headers.connection ?? "").split(",").map((name) => name.trim().toLowerCase()));
  return Object.fromEntries(
    Object.entries(headers).filter(
      ([name]) => NEVER_HOP_BY_HOP.has(name) || !(HOP_BY_HOP.has(name) || named.has(name)),
    ),
  ) as IncomingHttpHeaders;
}

function onwardHeaders(incoming: IncomingMessage): Record<string, string | string[]> {
  const socket = incoming.socket as TLSSocket;
  const headers = { ...passable(incoming.headers) } as Record<string, string | string[]>;
  // A body of any method stays framed: without its length the controller would take it for the next request of this
  // connection, one with whatever certificate it names.
  if (incoming.headers["transfer-encoding"] !== undefined) headers["transfer-encoding"] = "chunked";
  const before = headers["x-forwarded-for"];
  const client = socket.remoteAddress ?? "";
  headers["x-forwarded-for"] = before === undefined ? client : `${String(before)}, ${client}`;
  headers[PROXIED_AT] = new Date().toISOString();
  delete headers[CLIENT_CERTIFICATE];
  const chain: readonly X509Certificate[] = peerOf(socket).certificates;
  if (chain.length > 0) headers[CLIENT_CERTIFICATE] = chain.map((certificate) => certificate.raw.toString("base64"));
  return headers;
}
