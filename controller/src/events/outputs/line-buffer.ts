import type { Logger } from "@sallyport/wire";

/** Lines are counted; this bounds the memory of large ones. */
const MAX_BYTES = 64 * 1024 * 1024;
const LOG_EVERY_MS = 10_000;

/** Lines on their way to something slow. Full: the newest are dropped, counted, and from time to time the log says how many. */
export class LineBuffer {
  readonly #name: string;
  readonly #limit: number;
  readonly #log: Logger;
  #lines: string[] = [];
  #bytes = 0;
  #dropped = 0;
  #unreported = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(options: { readonly name: string; readonly limit: number; readonly log: Logger }) {
    this.#name = options.name;
    this.#limit = options.limit;
    this.#log = options.log;
  }

  get size(): number {
    return this.#lines.length;
  }

  /** Events lost since the start. */
  get dropped(): number {
    return this.#dropped;
  }

  push(line: string): void {
    if (this.#lines.length >= this.#limit || this.#bytes + line.length > MAX_BYTES) {
      this.drop(1, "the buffer is full");
      return;
    }
    this.#lines.push(line);
    this.#bytes += line.length;
  }

  /** Everything that waits, as one text of whole lines; how many lines it holds. */
  take(): { text: string; count: number } {
    const lines = this.#lines;
    this.#lines = [];
    this.#bytes = 0;
    return { text: lines.length === 0 ? "" : `${lines.join("\n")}\n`, count: lines.length };
  }

  /** Counts events as lost. */
  drop(count: number, reason: string): void {
    this.#dropped += count;
    this.#unreported += count;
    const now = performance.now();
    if (now - this.#reportedAt < LOG_EVERY_MS) return;
    this.#reportedAt = now;
    this.#log.warn(
      { output: this.#name, dropped: this.#unreported, total: this.#dropped, reason },
      "events were dropped",
    );
    this.#unreported = 0;
  }
}
