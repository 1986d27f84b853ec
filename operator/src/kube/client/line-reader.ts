import { KubeError } from "./errors.ts";

/** The largest event: an object has at most a mebibyte and a half, its bookkeeping can double that. */
const LINE_LIMIT = 16 * 1024 * 1024;
const NEWLINE = 10;

/** Cuts a stream of bytes into JSON values, one a line. A broken line, or one that the end of the stream cuts, is an error: something was missed. */
export class LineReader {
  readonly #limit: number;
  #parts: Buffer[] = [];
  #length = 0;

  constructor(limit = LINE_LIMIT) {
    this.#limit = limit;
  }

  *push(chunk: Buffer): Iterable<unknown> {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start);
      const rest = chunk.subarray(start, end < 0 ? undefined : end);
      this.#length += rest.length;
      if (this.#length > this.#limit) throw badStream(`a line has more than ${this.#limit} bytes`);
      if (end < 0) {
        if (rest.length > 0) this.#parts.push(Buffer.from(rest));
        return;
      }
      const line = this.#parts.length === 0 ? rest : Buffer.concat([...this.#parts, rest]);
      this.#parts = [];
      this.#length = 0;
      start = end + 1;
      if (line.length > 0) yield parse(line);
    }
  }

  /** The stream ended. */
  end(): void {
    if (this.#length > 0) throw badStream(`the stream ended within a line, after ${this.#length} bytes of it`);
  }
}

function parse(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString("utf8"));
  } catch (cause) {
    throw badStream("a line is no JSON", cause);
  }
}

function badStream(message: string, cause?: unknown): KubeError {
  return new KubeError({ status: 0, reason: "BadAnswer", message: `watch: ${message}`, cause });
}
