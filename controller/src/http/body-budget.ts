import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { apiError } from "@sallyport/api";
import { SharedPlaces } from "@sallyport/wire";
import type { Caller } from "./caller.ts";

export interface BodyLimits {
  /** Bytes of all bodies that are being read or worked on, and of those from one caller. */
  readonly maxBytesUnderWay: number;
  readonly maxBytesUnderWayPerCaller: number;
}

/** Of the bytes of all: each kind of caller has a part that the others cannot take. */
const PARTS = { strangers: 1 / 4, sessions: 1 / 2, administrators: 1 / 4 } as const;

/** How large a body is; as large as may be where that is not said. */
export function announcedBytes(headers: IncomingHttpHeaders, most: number): number {
  return headers["transfer-encoding"] === undefined ? Number(headers["content-length"] ?? 0) : most;
}

/**
 * What bodies may take of memory together: one of the largest is no harm, thousands that arrive slowly are. When there is no more room, the oldest of the
 * same kind of caller that has not arrived yet is given up.
 */
export class BodyBudget {
  readonly #parts: Readonly<Record<keyof typeof PARTS, SharedPlaces>>;

  constructor({ maxBytesUnderWay, maxBytesUnderWayPerCaller }: BodyLimits) {
    const part = (share: number): SharedPlaces => {
      const places = Math.floor(maxBytesUnderWay * share);
      return new SharedPlaces({ places, perAddress: Math.min(places, maxBytesUnderWayPerCaller) });
    };
    this.#parts = {
      strangers: part(PARTS.strangers),
      sessions: part(PARTS.sessions),
      administrators: part(PARTS.administrators),
    };
  }

  /**
   * Reserves bytes for the body of a request that is about to be read. One that has to make room has its connection closed.
   * @returns gives the bytes back @throws ApiError 429 when there is no room for them
   */
  reserve(message: IncomingMessage, { key, hasSession, isAdministrator }: Caller, bytes: number): () => void {
    const part = this.#parts[isAdministrator ? "administrators" : hasSession ? "sessions" : "strangers"];
    const place = part.take(key, () => message.destroy(), bytes);
    if (place === undefined) {
      const detail = `bodies of ${part.taken} bytes are under way, ${part.takenBy(key)} from ${key}`;
      throw apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers: { "retry-after": "1" }, detail });
    }
    message.once("end", () => place.settle());
    return () => place.release();
  }
}
