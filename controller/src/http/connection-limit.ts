import type { Socket } from "node:net";
import { type Logger, type SharedPlace, SharedPlaces } from "@sallyport/wire";
import type { Caller } from "./caller.ts";

const LOG_EVERY_MS = 10_000;
/** Connections with a session give way after those without. */
const WITH_SESSION = 1;

export interface ConnectionLimits {
  /** Connections at once, of all callers together, and from one address. */
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
}

/**
 * The open connections, up to a limit, since each takes memory. When full, the oldest without a session makes room, then the one that showed its session
 * longest ago. Connections of administrators stay.
 */
export class OpenConnections {
  readonly #places: SharedPlaces;
  readonly #log: Logger;
  readonly #sockets = new Map<object, SharedPlace>();
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(limits: ConnectionLimits, log: Logger) {
    this.#places = new SharedPlaces({ places: limits.maxConnections, perAddress: limits.maxConnectionsPerAddress });
    this.#log = log;
  }

  get size(): number {
    return this.#sockets.size;
  }

  [Symbol.iterator](): IterableIterator<Socket> {
    return this.#sockets.keys() as IterableIterator<Socket>;
  }

  /** Counts a connection until it closes; false, and the connection is gone, when there are too many and none can make room. */
  admit(socket: Socket): boolean {
    const address = socket.remoteAddress ?? "";
    const place = this.#places.take(address, () => {
      this.#logRefusal(address);
      socket.destroy();
    });
    if (place === undefined) {
      this.#logRefusal(address);
      socket.destroy();
      return false;
    }
    this.#sockets.set(socket, place);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      place.release();
    });
    return true;
  }

  /** A request of the caller came on the connection. */
  usedBy(socket: object, { hasSession, isAdministrator }: Caller): void {
    const place = this.#sockets.get(socket);
    if (isAdministrator) place?.settle();
    else if (hasSession) place?.raise(WITH_SESSION);
  }

  #logRefusal(address: string): void {
    const now = performance.now();
    if (now - this.#loggedAt < LOG_EVERY_MS) return;
    this.#loggedAt = now;
    this.#log.warn(
      { connections: this.#sockets.size, address, fromThere: this.#places.takenBy(address) },
      "too many connections: those that showed no session are closed, the oldest first",
    );
  }
}
