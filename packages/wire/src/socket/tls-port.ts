import { constants } from "node:crypto";
import type { Socket } from "node:net";
import { createServer, type Server, type TLSSocket, type TlsOptions } from "node:tls";
import { remoteAddress } from "../channel/peer.ts";
import { HandshakeError } from "../errors.ts";
import { type Identity, tlsParameters } from "../identity/identity.ts";
import { type Logger, silentLogger } from "../log.ts";
import { type AlpnEntry, selectAlpn } from "./alpn.ts";

const HANDSHAKE_TIMEOUT_MS = 5_000;
const KEEP_ALIVE_MS = 15_000;

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
  readonly log?: Logger;
}

/** One user of a port: what it is called in logs, which ALPN names it owns, and what it does with a connection. */
export interface TlsPortUser extends AlpnEntry {
  readonly name: string;
  /** Takes over a connection whose handshake is done. A client certificate may be missing and is never verified here. */
  onSocket(socket: TLSSocket): void;
}

/**
 * One TLS socket shared by everything that listens on the same address; ALPN says whose a connection is
 * (docs/protocol/channel.md, "Shared ports"). Client certificates are asked for and not verified: who they belong to is
 * decided after the hello. Sessions are not resumed, since a resumed one no longer knows the client's chain.
 */
export class TlsPort {
  readonly port: number;
  readonly #server: Server;
  readonly #log: Logger;
  readonly #users: TlsPortUser[] = [];
  /** Connections, also those whose handshake is not done yet. */
  readonly #sockets = new Set<Socket>();
  #identity: Identity;

  private constructor(server: Server, port: number, identity: Identity, log: Logger) {
    this.#server = server;
    this.port = port;
    this.#identity = identity;
    this.#log = log;
  }

  /** @throws Error as `net.Server.listen` gives it, for example `EADDRINUSE` */
  static async listen(options: TlsPortOptions): Promise<TlsPort> {
    const log = options.log ?? silentLogger;
    let port: TlsPort | undefined;
    const tlsOptions: TlsOptions = {
      ...contextOptions(options.identity),
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: options.handshakeTimeoutMs ?? HANDSHAKE_TIMEOUT_MS,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
      ALPNCallback: ({ protocols }) => (port === undefined ? undefined : selectAlpn(protocols, port.#users)?.protocol),
      SNICallback: (servername, done) => {
        const identity = port === undefined ? options.identity : port.#identity;
        done(null, identity.serverContext(servername));
      },
    };
    const server = createServer(tlsOptions);
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host: options.host, port: options.port, reusePort: options.reusePort ?? false }, () => {
        server.off("error", reject);
        resolve();
      });
    });
    const address = server.address();
    if (address === null || typeof address === "string") {
      throw new HandshakeError("NOT_A_TCP_PORT", `expected a TCP port, got ${String(address)}`);
    }
    port = new TlsPort(server, address.port, options.identity, log);
    port.#start();
    return port;
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
      if (at >= 0) {
        this.#users.splice(at, 1);
      }
    };
  }

  /** New handshakes use `identity`; connections that exist stay as they are. */
  setIdentity(identity: Identity): void {
    this.#identity = identity;
    this.#server.setSecureContext(contextOptions(identity));
  }

  /** Stops listening and ends every connection that was accepted here. */
  async close(): Promise<void> {
    this.#users.length = 0;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) {
      socket.destroy();
    }
    await closed;
  }

  #start(): void {
    this.#server.on("secureConnection", (socket) => this.#accepted(socket));
    this.#server.on("connection", (socket) => {
      // Asked for while it can be told; Node remembers it.
      remoteAddress(socket);
      this.#track(socket);
    });
    this.#server.on("tlsClientError", (error, socket) => {
      // A client that just hangs up probes the port, or came to look at the certificate: nothing for an operator to do.
      const level = (error as NodeJS.ErrnoException).code === "ECONNRESET" ? "debug" : "info";
      this.#log[level]({ peer: peerAddress(socket), port: this.port, ...wordsOf(error) }, "TLS handshake failed");
      // Node leaves the connection open after a handshake that took too long.
      socket.destroy();
    });
    this.#server.on("error", (error) => this.#log.error({ port: this.port, err: error }, "listening failed"));
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  #accepted(socket: TLSSocket): void {
    this.#track(socket);
    socket.on("error", (error) =>
      this.#log.debug({ peer: remoteAddress(socket), port: this.port, reason: error.message }, "connection failed"),
    );
    const offered = socket.alpnProtocol ? [socket.alpnProtocol] : [];
    const user = selectAlpn(offered, this.#users)?.entry;
    if (user === undefined) {
      this.#log.info({ peer: remoteAddress(socket), port: this.port, offered }, "nobody on this port takes the client");
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

/** A TLS socket whose handshake failed may have forgotten its peer; the connection below it, which Node keeps there, has not. */
function peerAddress(socket: TLSSocket & { readonly _parent?: Socket | null }): string {
  const address = remoteAddress(socket);
  return address === "unknown" && socket._parent ? remoteAddress(socket._parent) : address;
}

/** OpenSSL's messages name its source files; `reason` says the same in a few words. */
function wordsOf(error: Error & { readonly code?: string; readonly reason?: string }): {
  code?: string;
  reason: string;
} {
  return { ...(error.code === undefined ? {} : { code: error.code }), reason: error.reason ?? error.message };
}

/** For clients that name no server; those that do get their context from `SNICallback`. */
function contextOptions(identity: Identity): TlsOptions {
  const { certPem, keyPem } = identity.defaultServerCertificate;
  return {
    ...tlsParameters,
    cert: certPem,
    key: keyPem,
    honorCipherOrder: true,
    secureOptions: constants.SSL_OP_NO_TICKET,
  };
}
