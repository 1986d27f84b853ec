import type { Writable } from "node:stream";
import type { Logger } from "@sallyport/wire";
import type { EventOutput } from "../dispatcher.ts";
import { LineBuffer } from "./line-buffer.ts";

/** Writes events to a stream, one JSON object per line, as fast as it takes them. */
export class StreamOutput implements EventOutput {
  readonly name: string;
  readonly #stream: Writable;
  readonly #buffer: LineBuffer;
  #isScheduled = false;
  #isClosed = false;

  constructor(options: {
    readonly name: string;
    readonly stream: Writable;
    /** Events that may wait. */
    readonly bufferSize: number;
    readonly log: Logger;
  }) {
    this.name = options.name;
    this.#stream = options.stream;
    this.#buffer = new LineBuffer({ name: options.name, limit: options.bufferSize, log: options.log });
  }

  /** Events lost since the start. */
  get dropped(): number {
    return this.#buffer.dropped;
  }

  write(_namespace: string, json: string): void {
    if (this.#isClosed) return;
    if (this.#stream.destroyed || this.#stream.writableEnded) {
      this.#buffer.drop(1, "the stream has ended");
      return;
    }
    this.#buffer.push(json);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#flush());
  }

  async close(): Promise<void> {
    if (!this.#stream.writableNeedDrain) this.#flush();
    this.#isClosed = true;
  }

  #flush(): void {
    if (this.#stream.writableNeedDrain) {
      this.#stream.once("drain", () => this.#flush());
      return;
    }
    this.#isScheduled = false;
    const { text } = this.#buffer.take();
    if (text !== "" && !this.#stream.destroyed) this.#stream.write(text);
  }
}
