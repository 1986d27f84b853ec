import type { Socket } from "node:net";
import type { Logger } from "@sallyport/wire";

const LOG_EVERY_MS = 10_000;

export interface ConnectionLimits {
  /** Connections at once, of all callers together, and from one address. */
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
}

/** The connections that are open, and no more of them than there may be: each holds memory, and bodies that are being read hold more. */
export class OpenConnections {
  readonly #limits: ConnectionLimits;
  readonly #log: Logger;
  readonly #sockets = new Set<Socket>();
  readonly #byAddress = new Map<string, number>();
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(limits: ConnectionLimits, log: Logger) {
    this.#limits = limits;
    this.#log = log;
  }

  get size(): number {
    return this.#sockets.size;
  }

  [Symbol.iterator](): IterableIterator<Socket> {
    return this.#sockets[Symbol.iterator]();
  }

  /** Counts a connection until it closes; false, and the connection is gone, when there are too many. */
  admit(socket: Socket): boolean {
    const address = socket.remoteAddress ?? "";
    const fromThere = this.#byAddress.get(address) ?? 0;
    if (this.#sockets.size >= this.#limits.maxConnections || fromThere >= this.#limits.maxConnectionsPerAddress) {
      this.#tell(address, fromThere);
      socket.destroy();
      return false;
    }
    this.#sockets.add(socket);
    this.#byAddress.set(address, fromThere + 1);
    socket.once("close", () => this.#closed(socket, address));
    return true;
  }

  #closed(socket: Socket, address: string): void {
    this.#sockets.delete(socket);
    const left = (this.#byAddress.get(address) ?? 1) - 1;
    if (left > 0) this.#byAddress.set(address, left);
    else this.#byAddress.delete(address);
  }

  #tell(address: string, fromThere: number): void {
    const now = performance.now();
    if (now - this.#loggedAt < LOG_EVERY_MS) return;
    this.#loggedAt = now;
    this.#log.warn(
      { connections: this.#sockets.size, address, fromThere },
      "too many connections: further ones are closed",
    );
  }
}
