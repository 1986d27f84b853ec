import { apiError } from "@sallyport/api";

/**
 * A bound on expensive work: so many at a time, so many more in line, first come first served. Who comes when the line is full is told to come again, at
 * once, instead of making everybody wait longer.
 */
export class WorkLimit {
  readonly #atATime: number;
  readonly #inLine: number;
  readonly #retryAfterSeconds: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(o: { readonly atATime: number; readonly inLine: number; readonly retryAfterSeconds: number }) {
    this.#atATime = o.atATime;
    this.#inLine = o.inLine;
    this.#retryAfterSeconds = o.retryAfterSeconds;
  }

  /** @throws ApiError 429 with `Retry-After` when the line is full; else what the work throws */
  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#atATime) this.#running++;
    else {
      if (this.#waiting.length >= this.#inLine) {
        throw apiError("SERVER_TOO_MANY_REQUESTS", undefined, {
          headers: { "retry-after": String(this.#retryAfterSeconds) },
        });
      }
      // Whoever ends gives its place to the next one in line.
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }
}
