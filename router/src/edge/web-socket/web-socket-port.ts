import { once } from "node:events";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import {
  boundedLog,
  type ChannelPort,
  Handshakes,
  type HandshakeTurns,
  type Identity,
  type Logger,
  peekClientHello,
  selectAlpn,
  serverTlsOptions,
  type TlsPortUser,
} from "@sallyport/wire";
import { type WebSocket, WebSocketServer } from "ws";
import { FrameAlignedSocket, WebSocketStream } from "./web-socket-stream.ts";

/** `transport.wss`; times in seconds. */
export interface WebSocketSettings {
  readonly handshakeTimeout: number;
  readonly pingInterval: number;
  readonly pongTimeout: number;
}

export interface WebSocketPortOptions {
  readonly host: string;
  readonly port: number;
  /** Of the router: what SDKs see inside the web socket. */
  readonly identity: Identity;
  /** What browsers see outside; the router's when left out. */
  readonly outer?: Identity | undefined;
  readonly settings: WebSocketSettings;
  /** As for a `TlsPort`. */
  readonly turns?: HandshakeTurns;
  readonly log: Logger;
}

/** The one path there is. */
const PATH = "/ws";
/** Bytes of one message; peers send a TLS record or a few in each. */
const MAX_MESSAGE = 1024 * 1024;
/** The other end gets this long to answer that the web socket ends, and again while it takes what was sent before. */
const LINGER_MS = 1_000;
/** At most so often. */
const MAX_LINGERS = 10;
/** Requests that take too long are looked for so often, or sooner. */
const MAX_CHECKING_MS = 5_000;

/**
 * SDKs in browsers: HTTPS, where `GET /ws` becomes a web socket that carries TLS once more, with the client certificate
 * that a browser cannot present outside (docs/protocol/channel.md, "Web sockets"). Registered users get the inner
 * connections.
 */
export class WebSocketPort implements ChannelPort {
  readonly port: number;
  readonly #o: WebSocketPortOptions;
  readonly #https: HttpsServer;
  readonly #sockets: WebSocketServer;
  readonly #users: TlsPortUser[] = [];
  readonly #connections = new Set<Socket>();
  /** Connections whose inner handshake is not done. */
  readonly #handshakes: Handshakes;
  readonly #pings: NodeJS.Timeout;
  /** When a web socket was heard last. */
  readonly #heard = new Map<WebSocket, number>();
  #identity: Identity;
  #outer: Identity;

  private constructor(options: WebSocketPortOptions, https: HttpsServer, port: number) {
    this.#o = options;
    this.#https = https;
    this.port = port;
    this.#identity = options.identity;
    this.#outer = options.outer ?? options.identity;
    const log = boundedLog(options.log);
    this.#handshakes = new Handshakes(log, { turns: options.turns });
    https.on("error", (error) => log.error({ port, err: error }, "listening failed"));
    https.on("connection", (socket: Socket) => void this.#handshakes.begin(socket));
    this.#sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_MESSAGE, perMessageDeflate: false });
    https.on("secureConnection", (socket: TLSSocket) => {
      this.#connections.add(socket);
      socket.once("close", () => this.#connections.delete(socket));
    });
    https.on("upgrade", (request, socket: Duplex, head: Buffer) => {
      // Not parsed as a URL: what an unauthenticated client sends need not be one.
      const [path] = (request.url ?? "").split("?", 1);
      if (path !== PATH || this.#users.length === 0) {
        socket.end("HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        return;
      }
      this.#sockets.handleUpgrade(request, socket, head, (webSocket) => this.#upgraded(webSocket, request.socket));
    });
    this.#pings = setInterval(() => this.#ping(), options.settings.pingInterval * 1000);
    this.#pings.unref();
  }

  /** @throws Error as `net.Server.listen` gives it, for example `EADDRINUSE` */
  static async listen(options: WebSocketPortOptions): Promise<WebSocketPort> {
    const outer = options.outer ?? options.identity;
    const timeoutMs = options.settings.handshakeTimeout * 1000;
    let port: WebSocketPort | undefined;
    const https = createHttpsServer(
      {
        ...serverTlsOptions(outer),
        SNICallback: (name, done) => done(null, (port?.outer ?? outer).serverContext(name)),
        handshakeTimeout: timeoutMs,
        headersTimeout: timeoutMs,
        requestTimeout: timeoutMs,
        connectionsCheckingInterval: Math.min(MAX_CHECKING_MS, timeoutMs),
      },
      (_request, response) => {
        response.writeHead(404, { connection: "close", "content-length": 0 }).end();
      },
    );
    https.listen({ host: options.host, port: options.port });
    await once(https, "listening");
    port = new WebSocketPort(options, https, (https.address() as AddressInfo).port);
    return port;
  }

  get outer(): Identity {
    return this.#outer;
  }

  register(user: TlsPortUser): () => void {
    this.#users.push(user);
    return () => {
      const at = this.#users.indexOf(user);
      if (at >= 0) this.#users.splice(at, 1);
    };
  }

  /** New connections use `identity`. */
  setIdentity(identity: Identity): void {
    this.#identity = identity;
    if (this.#o.outer === undefined) this.setOuterIdentity(identity);
  }

  /** New connections see `identity` outside. */
  setOuterIdentity(identity: Identity): void {
    this.#outer = identity;
    this.#https.setSecureContext(serverTlsOptions(identity));
  }

  /** Stops listening and ends every connection. */
  async close(): Promise<void> {
    clearInterval(this.#pings);
    this.#users.length = 0;
    for (const webSocket of this.#heard.keys()) webSocket.terminate();
    const closed = new Promise<void>((resolve) => this.#https.close(() => resolve()));
    for (const socket of this.#connections) socket.destroy();
    await closed;
  }

  #upgraded(webSocket: WebSocket, below: Socket): void {
    this.#heard.set(webSocket, performance.now());
    const hear = (): void => void this.#heard.set(webSocket, performance.now());
    webSocket.on("pong", hear).on("message", hear);
    webSocket.once("close", () => this.#heard.delete(webSocket));
    const stream = new WebSocketStream(webSocket, below);
    const late = setTimeout(() => webSocket.terminate(), this.#o.settings.handshakeTimeout * 1000);
    webSocket.once("close", () => clearTimeout(late));
    stream.on("error", this.#failure(below.remoteAddress, stream));
    peekClientHello(stream, (hello) => {
      const came = stream.readableLength;
      this.#handshakes.take(below, {
        get bytesRead() {
          return stream.bytesRead;
        },
        read: () => void stream.resume(),
        stopReading: () => void stream.pause(),
        begin: () => {
          if (hello === undefined || stream.readableLength !== came) webSocket.terminate();
          else if (!stream.destroyed) this.#secure(webSocket, stream, below, late);
        },
      });
    });
  }

  #secure(webSocket: WebSocket, stream: WebSocketStream, below: Socket, late: NodeJS.Timeout): void {
    const inner = new FrameAlignedSocket(stream, {
      isServer: true,
      // The name that a client asks for is that of the web socket, for which browsers have seen a certificate already.
      secureContext: this.#identity.serverContext(),
      requestCert: true,
      rejectUnauthorized: false,
      ALPNCallback: ({ protocols }) => selectAlpn(protocols, this.#users)?.protocol,
      SNICallback: (name, done) => done(null, this.#identity.serverContext(name)),
    });
    const { remoteAddress, remotePort, localAddress, localPort } = below;
    // A TLS socket inside a stream has no addresses of its own; those of the connection below say who it is.
    for (const [name, value] of Object.entries({ remoteAddress, remotePort, localAddress, localPort })) {
      Object.defineProperty(inner, name, { value });
    }
    const failed = this.#failure(remoteAddress, inner);
    stream.on("error", failed);
    inner.on("error", failed);
    inner.once("secure", () => {
      clearTimeout(late);
      this.#secured(inner, below);
    });
    inner.once("close", () => {
      clearTimeout(late);
      webSocket.close();
      linger(webSocket);
    });
    webSocket.once("close", () => inner.destroy());
  }

  #failure(peer: string | undefined, failing: Duplex): (error: Error) => void {
    return (error) => {
      this.#o.log.debug({ peer, port: this.port, reason: error.message }, "web socket failed");
      failing.destroy();
    };
  }

  #secured(socket: TLSSocket, below: Socket): void {
    this.#handshakes.done(socket, below);
    const offered = socket.alpnProtocol ? [socket.alpnProtocol] : [];
    const user = selectAlpn(offered, this.#users)?.entry;
    if (user === undefined) socket.destroy();
    else user.onSocket(socket);
  }

  #ping(): void {
    const { pingInterval, pongTimeout } = this.#o.settings;
    const silentSince = performance.now() - (pingInterval + pongTimeout) * 1000;
    for (const [webSocket, heard] of this.#heard) {
      if (heard < silentSince) webSocket.terminate();
      else webSocket.ping();
    }
  }
}

/** Waits for the end of a web socket that is closing, and ends it when nothing moves any more. */
function linger(webSocket: WebSocket): void {
  let waiting = webSocket.bufferedAmount;
  let lingers = 0;
  const timer = setInterval(() => {
    const isMoving = webSocket.bufferedAmount < waiting;
    waiting = webSocket.bufferedAmount;
    if (!isMoving || ++lingers >= MAX_LINGERS) webSocket.terminate();
  }, LINGER_MS);
  timer.unref();
  webSocket.once("close", () => clearInterval(timer));
}
