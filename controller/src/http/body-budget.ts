import type { IncomingHttpHeaders } from "node:http";
import { apiError } from "@sallyport/api";

export interface BodyLimits {
  /** Bytes of all bodies that are being read or worked on, and of those from one address. */
  readonly maxBytesUnderWay: number;
  readonly maxBytesUnderWayPerAddress: number;
}

/** How large a body is; as large as may be where that is not said. */
export function announcedBytes(headers: IncomingHttpHeaders, most: number): number {
  return headers["transfer-encoding"] === undefined ? Number(headers["content-length"] ?? 0) : most;
}

/** What bodies may take of memory together: one of the largest is no harm, thousands that arrive slowly are. */
export class BodyBudget {
  readonly #limits: BodyLimits;
  readonly #byAddress = new Map<string, number>();
  #total = 0;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** @returns the way to give the bytes back, once @throws ApiError 429 when there is no room for them */
  reserve(address: string, bytes: number): () => void {
    const before = this.#byAddress.get(address) ?? 0;
    const { maxBytesUnderWay, maxBytesUnderWayPerAddress } = this.#limits;
    if (this.#total + bytes > maxBytesUnderWay || before + bytes > maxBytesUnderWayPerAddress) {
      const detail = `bodies of ${this.#total} bytes are under way, ${before} from ${address}`;
      throw apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers: { "retry-after": "1" }, detail });
    }
    this.#total += bytes;
    this.#byAddress.set(address, before + bytes);
    return () => {
      this.#total -= bytes;
      const left = (this.#byAddress.get(address) ?? bytes) - bytes;
      if (left > 0) this.#byAddress.set(address, left);
      else this.#byAddress.delete(address);
    };
  }
}
