import { createServer } from "node:net";
import { HandshakeError } from "../../errors.ts";
import type { Identity } from "../../identity/identity.ts";
import { type Logger, silentLogger } from "../../log.ts";
import { listen } from "../listen.ts";
import type { ChannelPort, ChannelPortUser } from "../tls-port.ts";
import { pemOf, type ThreadSettings } from "./messages.ts";
import type { ThreadSocket } from "./thread-socket.ts";
import { TlsThread } from "./tls-thread.ts";

export interface ThreadPortOptions {
  /** Address to bind; `::` or `0.0.0.0` for all. */
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** One that `identityFromPem` made: threads make the same of its parts. */
  readonly identity: Identity;
  /** How many threads, at least 1. */
  readonly threads: number;
  readonly handshakeTimeoutMs: number;
  readonly log?: Logger;
}

/**
 * A port whose TLS is done by threads of their own, for machines with many cores and many clients. Each listens on
 * the same address, the kernel spreads connections over them, and a connection stays with its thread; what its channels
 * say is read and written here as with a `TlsPort`. Needs a system whose kernel does so (`reusePort` of `net.Server`).
 */
export class ThreadPort implements ChannelPort {
  readonly port: number;
  readonly #threads: TlsThread[];
  #user: ChannelPortUser | undefined;
  readonly #log: Logger;
  readonly #address: Pick<ThreadPortOptions, "host" | "handshakeTimeoutMs">;
  #identity: Identity;

  private constructor(o: ThreadPortOptions, port: number) {
    this.port = port;
    this.#log = o.log ?? silentLogger;
    this.#identity = o.identity;
    this.#address = { host: o.host, handshakeTimeoutMs: o.handshakeTimeoutMs };
    this.#threads = Array.from({ length: o.threads }, (_, number) => {
      const settings = (): ThreadSettings => this.#settings();
      const onSocket = (user: string, socket: ThreadSocket): void => this.#accepted(user, socket);
      return new TlsThread({ number, settings, onSocket, log: this.#log });
    });
  }

  /** @throws Error as `net.Server.listen` gives it, for example `EADDRINUSE`, or `ENOTSUP` where ports cannot be shared so */
  static async listen(o: ThreadPortOptions): Promise<ThreadPort> {
    const found = await findPort(o);
    const port = new ThreadPort(o, found.port);
    try {
      await Promise.all(port.#threads.map((thread) => thread.start()));
    } catch (error) {
      await port.close();
      throw error;
    } finally {
      await found.release();
    }
    return port;
  }

  /** Connections of each thread. */
  get connections(): readonly number[] {
    return this.#threads.map((thread) => thread.connections);
  }

  /** As `TlsPort.register`. @throws HandshakeError `ALPN_TAKEN` when there is a user already: this port has one */
  register(user: ChannelPortUser): () => void {
    if (this.#user !== undefined) {
      throw new HandshakeError(
        "ALPN_TAKEN",
        `${user.name} and ${this.#user.name} both want port ${this.port}, which has threads; give one of them another port`,
      );
    }
    this.#user = user;
    this.#tellUsers();
    return () => {
      if (this.#user !== user) return;
      this.#user = undefined;
      this.#tellUsers();
    };
  }

  /** New handshakes use `identity`; connections that exist stay as they are. */
  setIdentity(identity: Identity): void {
    this.#identity = identity;
    for (const thread of this.#threads) thread.tell({ kind: "identity", identity: pemOf(identity) });
  }

  /** Stops listening and ends every connection that was accepted here, and the threads. */
  async close(): Promise<void> {
    this.#user = undefined;
    await Promise.all(this.#threads.map((thread) => thread.close()));
  }

  #settings(): ThreadSettings {
    return { ...this.#address, port: this.port, identity: pemOf(this.#identity), users: this.#threadUsers() };
  }

  #threadUsers(): ThreadSettings["users"] {
    if (this.#user === undefined) return [];
    const { name, protocols, acceptsNoAlpn } = this.#user;
    return [{ name, protocols: [...protocols], acceptsNoAlpn }];
  }

  #tellUsers(): void {
    for (const thread of this.#threads) thread.tell({ kind: "users", users: this.#threadUsers() });
  }

  #accepted(name: string, socket: ThreadSocket): void {
    try {
      if (this.#user?.name === name) this.#user.onSocket(socket);
      else socket.destroy();
    } catch (error) {
      this.#log.error({ user: name, err: error }, "accepting a connection failed");
      socket.destroy();
    }
  }
}

/**
 * The port, once it is sure that it is free: threads would share it with any process that shares it as well, such as another router.
 * A port that the system chose is held until the threads listen, so that no other process gets it meanwhile.
 */
async function findPort({ host, port }: ThreadPortOptions): Promise<{ port: number; release(): Promise<void> }> {
  const isChosen = port === 0;
  const server = createServer((socket) => socket.destroy());
  // While the port is held, a failed accept is a client lost, as one that is accepted would be.
  await listen(server, { host, port, reusePort: isChosen }, () => {});
  const address = server.address();
  const release = () => new Promise<void>((resolve) => void server.close(() => resolve()));
  if (!isChosen) await release();
  return {
    port: address === null || typeof address === "string" ? port : address.port,
    release: isChosen ? release : async () => {},
  };
}
