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

/** The memory that request bodies may take together. When it is used up, the oldest unfinished body of the same kind of caller is dropped. */
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
   * Reserves bytes for a request body. The connection of a body that has to make room is closed.
   * @returns releases the bytes @throws ApiError 429 when there is no room
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
