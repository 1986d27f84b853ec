/** What callers may use of the server: times, sizes, and shares of the memory for bodies and connections. */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { apiError } from "@sallyport/api";
import { type Logger, type SharedPlace, SharedPlaces } from "@sallyport/wire";
import type { Caller } from "./context.ts";

export interface HttpLimits {
  /** Bytes of a request body. */
  readonly maxBodyBytes: number;
  /** Bytes of all bodies that are being read or worked on, and of those from one caller. */
  readonly maxBytesUnderWay: number;
  readonly maxBytesUnderWayPerCaller: number;
  readonly maxHeaderBytes: number;
  /** Connections at once, of all callers together, and from one address. */
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  /** For the headers of a request to arrive, and for the whole of it. */
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** For a handler to answer; then 503 `TIMEOUT`. */
  readonly handlerTimeoutMs: number;
  /** A connection without a request is closed after this time. */
  readonly keepAliveTimeoutMs: number;
  /** A connection on which nothing moves is closed after this time: a client that reads no answer must not hold memory. */
  readonly socketTimeoutMs: number;
  /** How long `close()` waits for requests that are being handled. */
  readonly closeTimeoutMs: number;
}

export const HTTP_LIMITS: HttpLimits = {
  maxBodyBytes: 1_048_576,
  maxBytesUnderWay: 268_435_456,
  maxBytesUnderWayPerCaller: 33_554_432,
  maxHeaderBytes: 65_536,
  maxConnections: 10_000,
  maxConnectionsPerAddress: 2_500,
  headersTimeoutMs: 5_000,
  requestTimeoutMs: 15_000,
  handlerTimeoutMs: 10_000,
  keepAliveTimeoutMs: 5_000,
  socketTimeoutMs: 30_000,
  closeTimeoutMs: 5_000,
};

/** Shares of the bytes of all bodies: no kind of caller can take the share of another. */
const SHARES = { unauthenticated: 1 / 4, sessions: 1 / 2, administrators: 1 / 4 } as const;

/** The size of a body as its headers announce it; `maxBytes` where they do not. */
export function announcedBytes(headers: IncomingHttpHeaders, maxBytes: number): number {
  return headers["transfer-encoding"] === undefined ? Number(headers["content-length"] ?? 0) : maxBytes;
}

/** The memory that request bodies may take together. When it is used up, the oldest unfinished body of the same kind of caller is dropped. */
export class BodyBudget {
  readonly #shares: Readonly<Record<keyof typeof SHARES, SharedPlaces>>;

  constructor({ maxBytesUnderWay, maxBytesUnderWayPerCaller }: HttpLimits) {
    const places = (share: number): SharedPlaces => {
      const bytes = Math.floor(maxBytesUnderWay * share);
      return new SharedPlaces({ places: bytes, perAddress: Math.min(bytes, maxBytesUnderWayPerCaller) });
    };
    this.#shares = {
      unauthenticated: places(SHARES.unauthenticated),
      sessions: places(SHARES.sessions),
      administrators: places(SHARES.administrators),
    };
  }

  /**
   * Reserves bytes for a request body. The connection of a body that has to make room is closed.
   * @returns releases the bytes @throws ApiError 429 when there is no room
   */
  reserve(message: IncomingMessage, { key, hasSession, isAdministrator }: Caller, bytes: number): () => void {
    const share = this.#shares[isAdministrator ? "administrators" : hasSession ? "sessions" : "unauthenticated"];
    const place = share.take(key, () => message.destroy(), bytes);
    if (place === undefined) {
      const detail = `bodies of ${share.taken} bytes are under way, ${share.takenBy(key)} from ${key}`;
      throw apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers: { "retry-after": "1" }, detail });
    }
    message.once("end", () => place.settle());
    return () => place.release();
  }
}

const LOG_EVERY_MS = 10_000;
/** Connections with a session give way after those without. */
const WITH_SESSION = 1;

/**
 * The open connections, up to a limit. At the limit the oldest without a session makes room, then the one that showed its session longest ago.
 * Connections of administrators stay.
 */
export class OpenConnections {
  readonly #places: SharedPlaces;
  readonly #log: Logger;
  readonly #sockets = new Map<object, SharedPlace>();
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(limits: HttpLimits, log: Logger) {
    this.#places = new SharedPlaces({ places: limits.maxConnections, perAddress: limits.maxConnectionsPerAddress });
    this.#log = log;
  }

  get size(): number {
    return this.#sockets.size;
  }

  [Symbol.iterator](): IterableIterator<Socket> {
    return this.#sockets.keys() as IterableIterator<Socket>;
  }

  /** Counts a connection until it closes; closes it and answers false when there are too many and none can make room. */
  admit(socket: Socket): boolean {
    const address = socket.remoteAddress ?? "";
    const refuse = () => {
      this.#logRefusal(address);
      socket.destroy();
    };
    const place = this.#places.take(address, refuse);
    if (place === undefined) {
      refuse();
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
