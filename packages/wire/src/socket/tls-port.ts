import { constants } from "node:crypto";
import { once } from "node:events";
import { createServer as createTcpServer, type Socket, type Server as TcpServer } from "node:net";
import { createServer, type Server, type TLSSocket, type TlsOptions } from "node:tls";
import { remoteAddress } from "../channel/peer.ts";
import { HandshakeError } from "../errors.ts";
import { type Identity, tlsParameters } from "../identity/identity.ts";
import { boundedLog, type Logger, silentLogger } from "../log.ts";
import { type AlpnEntry, selectAlpn } from "./alpn.ts";
import { type ClientHello, peekClientHello } from "./handshake/client-hello.ts";
import type { HandshakeTurns, TurnTaker } from "./handshake/handshake-turns.ts";
import { Handshakes } from "./handshake/handshakes.ts";
import type { SecureSocket } from "./stream-socket.ts";

/** Default of the time that a TLS handshake may take. */
export const HANDSHAKE_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 15_000;
/** Of what is no ClientHello, so much is given to TLS, for the sake of its answer. There are no two certificates in it. */
const MAX_OTHER_BYTES = 512;

export interface TlsPortOptions {
  /** Address to bind; `::` or `0.0.0.0` for all. */
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly identity: Identity;
  /** Lets several threads or processes listen on the same port; the kernel spreads connections over them. */
  readonly reusePort?: boolean;
  /** Milliseconds for a TLS handshake; 5,000 when not given. */
  readonly handshakeTimeoutMs?: number;
  /** Connections in their handshake at a time, half of them from one address; 8,192 when not given. */
  readonly maxHandshakes?: number;
  /** What addresses may cost in handshakes, for ports of a thread together; for this port alone when not given. */
  readonly turns?: HandshakeTurns;
  readonly log?: Logger;
}

/** One user of a port: what it is called in logs, which ALPN names it owns, and what it does with a connection. */
export interface TlsPortUser extends AlpnEntry {
  readonly name: string;
  /** Takes over a connection whose handshake is done. A client certificate may be missing and is never verified here. */
  onSocket(socket: TLSSocket): void;
}

/** The oldest and the newest version that is spoken. */
export type TlsVersions = Pick<TlsOptions, "minVersion" | "maxVersion">;

/** A user that takes connections of whatever kind of port. */
export interface ChannelPortUser extends AlpnEntry {
  readonly name: string;
  /** As `TlsPortUser.onSocket`. */
  onSocket(socket: SecureSocket): void;
}

/** Where channels can be accepted: a `TlsPort`, or what makes TLS connections in another way. */
export interface ChannelPort {
  /** Adds a user; the returned function removes it again and leaves its connections alone. */
  register(user: ChannelPortUser): () => void;
}

/** TLS with one identity. It does not listen: connections are handed to it. */
interface TlsTerminator {
  identity: Identity;
  readonly versions: TlsVersions;
  readonly server: Server;
}

/**
 * One TLS socket shared by everything that listens on the same address; ALPN says whose a connection is
 * (docs/protocol/channel.md, "Shared ports"). Client certificates are asked for and not verified: who they belong to is
 * decided after the hello. Sessions are not resumed, since a resumed one no longer knows the client's chain.
 */
export class TlsPort implements ChannelPort {
  readonly port: number;
  readonly #listener: TcpServer;
  readonly #handshakeTimeoutMs: number;
  readonly #log: Logger;
  readonly #users: TlsPortUser[] = [];
  /** Connections, also those whose handshake is not done yet. */
  readonly #sockets = new Set<Socket>();
  readonly #handshakes: Handshakes;
  readonly #common: TlsTerminator;
  /** By name of the user. */
  readonly #own = new Map<string, TlsTerminator>();

  private constructor(listener: TcpServer, port: number, options: TlsPortOptions) {
    this.#listener = listener;
    this.port = port;
    this.#handshakeTimeoutMs = options.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS;
    this.#log = boundedLog(options.log ?? silentLogger);
    this.#handshakes = new Handshakes(this.#log, { max: options.maxHandshakes, turns: options.turns });
    this.#common = this.#terminator(options.identity);
    listener.on("connection", (socket) => this.#connected(socket));
    listener.on("error", (error) => this.#log.error({ port, err: error }, "listening failed"));
  }

  /** @throws Error as `net.Server.listen` gives it, for example `EADDRINUSE` */
  static async listen(options: TlsPortOptions): Promise<TlsPort> {
    const listener = createTcpServer({ noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS });
    listener.listen({ host: options.host, port: options.port, reusePort: options.reusePort ?? false });
    await once(listener, "listening");
    const address = listener.address();
    if (address === null || typeof address === "string") {
      throw new HandshakeError("NOT_A_TCP_PORT", `expected a TCP port, got ${String(address)}`);
    }
    return new TlsPort(listener, address.port, options);
  }

  /**
   * Adds a user of the port; the returned function removes it again and leaves its connections alone.
   * @throws HandshakeError `ALPN_TAKEN` when another user owns one of its names
   */
  register(user: TlsPortUser): () => void {
    for (const other of this.#users) {
      const shared = user.protocols.find((protocol) => other.protocols.includes(protocol));
      if (shared !== undefined || (user.acceptsNoAlpn && other.acceptsNoAlpn)) {
        throw new HandshakeError(
          "ALPN_TAKEN",
          `${user.name} and ${other.name} both want ${shared ?? "clients without ALPN"} on port ${this.port}; give one of them another port`,
        );
      }
    }
    this.#users.push(user);
    return () => {
      const at = this.#users.indexOf(user);
      if (at >= 0) this.#users.splice(at, 1);
    };
  }

  /** New handshakes use `identity`; connections that exist stay as they are. Users with one of their own keep that. */
  setIdentity(identity: Identity): void {
    replaceIdentity(this.#common, identity);
  }

  /**
   * Has connections of the user with this name served with another identity than those of the others; again, to replace
   * it. `versions` are TLS versions that differ from the usual ones; they are those of the first call.
   */
  setUserIdentity(user: string, identity: Identity, versions: TlsVersions = {}): void {
    const own = this.#own.get(user);
    if (own === undefined) this.#own.set(user, this.#terminator(identity, versions));
    else replaceIdentity(own, identity);
  }

  /** Stops listening and ends every connection that was accepted here. */
  async close(): Promise<void> {
    this.#users.length = 0;
    const closed = new Promise<void>((resolve) => this.#listener.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #terminator(identity: Identity, versions: TlsVersions = {}): TlsTerminator {
    const server = createServer({
      ...serverTlsOptions(identity, versions),
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: this.#handshakeTimeoutMs,
      ALPNCallback: ({ protocols }) => selectAlpn(protocols, this.#users)?.protocol,
      SNICallback: (servername, done) => done(null, terminator.identity.serverContext(servername)),
    });
    server.on("secureConnection", (socket) => this.#accepted(socket));
    server.on("tlsClientError", (error: NodeJS.ErrnoException & { readonly reason?: string }, socket) => {
      // A client that just hangs up probes the port, or came to look at the certificate: nothing for an operator to do.
      const { code, message, reason = message } = error;
      const level = code === "ECONNRESET" ? "debug" : "info";
      // OpenSSL's messages name its source files; `reason` says the same in a few words.
      this.#log[level]({ peer: peerAddress(socket), port: this.port, code, reason }, "TLS handshake failed");
      // Node leaves the connection open after a handshake that took too long.
      socket.destroy();
    });
    const terminator = { identity, versions, server };
    return terminator;
  }

  #connected(socket: Socket): void {
    // Asked for while it can be told; Node remembers it.
    const peer = remoteAddress(socket);
    if (!this.#handshakes.begin(socket)) return;
    this.#track(socket);
    let missing = "no ClientHello in time";
    const timer = setTimeout(() => {
      this.#log.info({ peer, port: this.port, reason: missing }, "TLS handshake failed");
      socket.destroy();
    }, this.#handshakeTimeoutMs);
    const onEarlyEnd = () => clearTimeout(timer);
    const onError = (error: Error) =>
      this.#log.debug({ peer, port: this.port, reason: error.message }, "TLS handshake failed");
    socket.once("close", onEarlyEnd).on("error", onError);
    peekClientHello(socket, (hello) => {
      const came = socket.readableLength;
      missing = "too many handshakes of this address before it";
      this.#handshakes.take(socket, {
        ...readsOf(socket),
        get bytesRead() {
          return socket.bytesRead;
        },
        begin: () => {
          clearTimeout(timer);
          if (socket.destroyed) return;
          socket.off("close", onEarlyEnd).off("error", onError);
          if (socket.readableLength === came && (hello !== undefined || came <= MAX_OTHER_BYTES)) {
            this.#terminatorFor(hello).server.emit("connection", socket);
            return;
          }
          this.#log.info({ peer, port: this.port, reason: "not a ClientHello alone" }, "TLS handshake failed");
          socket.on("error", onError).destroy();
        },
      });
    });
  }

  /** Certificates are chosen before ALPN is looked at, so that whose the connection is must be known before the handshake. */
  #terminatorFor(hello: ClientHello | undefined): TlsTerminator {
    const user = hello && selectAlpn(hello.protocols, this.#users)?.entry;
    return (user && this.#own.get(user.name)) ?? this.#common;
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  #accepted(socket: TLSSocket): void {
    this.#handshakes.done(socket);
    this.#track(socket);
    socket.on("error", (error) => {
      this.#log.debug({ peer: remoteAddress(socket), port: this.port, reason: error.message }, "connection failed");
      // Also for who reads it otherwise than by a SocketReader, as threads do: a broken TLS connection does not close by itself.
      socket.destroy();
    });
    const offered = socket.alpnProtocol ? [socket.alpnProtocol] : [];
    const user = selectAlpn(offered, this.#users)?.entry;
    if (user === undefined) {
      this.#log.info(
        { peer: remoteAddress(socket), port: this.port, offered },
        "no user of this port takes the client",
      );
      socket.destroy();
      return;
    }
    try {
      user.onSocket(socket);
    } catch (error) {
      this.#log.error({ peer: remoteAddress(socket), user: user.name, err: error }, "accepting a connection failed");
      socket.destroy();
    }
  }
}

/**
 * Stops and goes on with reading below a TLS socket, which Node does itself while a handshake lasts. Its sockets have the means inside; without
 * them all is read as it comes, and several handshakes of an address may cost what one should.
 */
function readsOf(socket: Socket): Pick<TurnTaker, "read" | "stopReading"> {
  const handle: unknown = Reflect.get(socket, "_handle");
  const call = (name: string): void => {
    const method: unknown = typeof handle === "object" && handle !== null ? Reflect.get(handle, name) : undefined;
    if (typeof method === "function") Reflect.apply(method, handle, []);
  };
  return { read: () => call("readStart"), stopReading: () => call("readStop") };
}

function replaceIdentity(terminator: TlsTerminator, identity: Identity): void {
  terminator.identity = identity;
  terminator.server.setSecureContext(serverTlsOptions(identity, terminator.versions));
}

/** A TLS socket whose handshake failed may have forgotten its peer; the connection below it, which Node keeps there, has not. */
function peerAddress(socket: TLSSocket & { readonly _parent?: Socket | null }): string {
  const address = remoteAddress(socket);
  return address === "unknown" && socket._parent ? remoteAddress(socket._parent) : address;
}

/** What a TLS server needs for clients that name no server; those that do get their context from `SNICallback`. */
export function serverTlsOptions(identity: Identity, versions: TlsVersions = {}): TlsOptions {
  const { certPem, keyPem } = identity.defaultServerCertificate;
  return {
    ...tlsParameters,
    ...versions,
    cert: certPem,
    key: keyPem,
    honorCipherOrder: true,
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
}
