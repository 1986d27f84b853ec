import type { EdgeConnection } from "@sallyport/sdk";
import type { OverlayConnection, OverlayHandler } from "../overlay.ts";

/** Plain bytes in one message at most: encrypted and framed for a link it fills one TLS record. */
const maxMessage = 16_279;

/** A connection of the SDK, as the tunneler wants it. */
export class DuplexConnection implements OverlayConnection {
  readonly maxMessage = maxMessage;
  readonly circuitId: string;
  readonly #connection: EdgeConnection;
  #held: Buffer | undefined;
  #isClosed = false;

  constructor(connection: EdgeConnection) {
    this.#connection = connection;
    this.circuitId = connection.circuitId;
    connection.on("error", () => {});
  }

  start(handler: OverlayHandler): void {
    const connection = this.#connection;
    connection.on("data", (bytes: Buffer) => {
      if (this.#isClosed || handler.data(bytes, 0, bytes.length)) return;
      this.#held = bytes;
      connection.pause();
    });
    this.#resume = () => {
      const bytes = this.#held;
      if (bytes !== undefined && !handler.data(bytes, 0, bytes.length)) return;
      this.#held = undefined;
      connection.resume();
    };
    connection.on("end", () => {
      if (!this.#isClosed) handler.endOfData();
    });
    connection.on("drain", () => {
      if (!this.#isClosed) handler.writable();
    });
    connection.on("close", () => {
      if (this.#isClosed) return;
      this.#isClosed = true;
      handler.closed(connection.errored ?? undefined);
    });
    if (connection.destroyed) connection.emit("close", connection.errored !== null);
  }

  #resume: () => void = () => {};

  write(buffer: Buffer, start: number, end: number): boolean {
    if (this.#isClosed || !this.#connection.writable) return true;
    // The bytes belong to the caller again when this returns.
    return this.#connection.write(Buffer.from(buffer.subarray(start, end)));
  }

  endWriting(): void {
    if (this.#connection.writable) this.#connection.end();
  }

  resume(): void {
    this.#resume();
  }

  close(): void {
    this.#isClosed = true;
    this.#connection.destroySoon();
  }
}
