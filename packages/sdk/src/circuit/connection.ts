import { Duplex } from "node:stream";
import { ConnectionClosedError } from "../errors.ts";
import { MAX_STREAM_MESSAGE, type MessageConnection, STREAM_MESSAGE_BYTES } from "./message-connection.ts";
import { Pieces, ReadMemory } from "./stream-buffers.ts";
import type { TraceHop, TraceOptions } from "./trace-route.ts";

const HIGH_WATER_MARK = 256 * 1024;

/**
 * A connection to or from a service: a byte stream in the shape of `net.Socket`. `end()` closes one direction, and data
 * from the other end still arrives (with `allowHalfOpen`). When the application does not read, or the router does not
 * take more, the sender is slowed down.
 */
export class EdgeConnection extends Duplex {
  readonly service: string;
  readonly circuitId: string;
  readonly callerId: string | undefined;
  readonly appData: Buffer | undefined;
  /** True when the bytes are encrypted between this process and the other end. */
  readonly isEncrypted: boolean;
  // For libraries written for net.Socket.
  readonly connecting = false;
  readonly pending = false;
  readonly remoteAddress: string;
  readonly remoteFamily = "overlay";
  readonly remotePort = 0;
  readonly localAddress: string;
  readonly localPort = 0;
  timeout: number | undefined;
  readonly #messages: MessageConnection;
  #sawEnd = false;
  #isRemoteClosed = false;
  /** Node wants more bytes. */
  #isAsked = false;
  readonly #memory = new ReadMemory();
  /** What arrived in this turn and follows each other in memory: pushed as one at its end. */
  #arrived: Buffer | undefined;
  #arrivedBytes = 0;
  #isPushing = false;
  #idle: NodeJS.Timeout | undefined;
  /** What is being written, and who wants to know when it is. */
  readonly #writing = new Pieces(STREAM_MESSAGE_BYTES, MAX_STREAM_MESSAGE);
  #written: ((error?: Error | null) => void) | undefined;

  /** @param o.allowHalfOpen as with `net.Socket` */
  constructor(messages: MessageConnection, o: { readonly allowHalfOpen: boolean }) {
    super({
      allowHalfOpen: o.allowHalfOpen,
      // `close` comes from `_destroy`, with the word that net.Socket adds to it.
      emitClose: false,
      readableHighWaterMark: HIGH_WATER_MARK,
      writableHighWaterMark: HIGH_WATER_MARK,
    });
    this.#messages = messages;
    this.isEncrypted = messages.isEncrypted;
    this.service = messages.service;
    this.circuitId = messages.circuitId;
    this.callerId = messages.callerId;
    this.appData = messages.appData;
    this.localAddress = messages.localName;
    this.remoteAddress = messages.remoteName;
    messages.start({
      memory: (size) => this.#memory.take(size, this.#arrived !== undefined),
      data: (buffer, start, end) => this.#take(buffer.subarray(start, end)),
      endOfData: () => this.#endOfData(),
      writable: () => this.#write(),
      closed: (error) => this.#over(error),
    });
  }

  /**
   * Asks a hop of the circuit how it answers: 1 is the first router ({@link TraceHop}).
   *
   * @throws RequestTimeoutError, ChannelClosedError, or the signal's reason
   */
  async traceRoute(hops: number, options?: TraceOptions): Promise<TraceHop> {
    return await this.#messages.traceRoute(hops, options);
  }

  get bytesRead(): number {
    return this.#messages.bytesRead;
  }

  get bytesWritten(): number {
    return this.#messages.bytesWritten;
  }

  // From the other end ------------------------------------------------------------------------------------------------

  #take(bytes: Buffer): boolean {
    if (this.destroyed) return true;
    if (!this.#isAsked && this.readableLength + this.#arrivedBytes >= HIGH_WATER_MARK) return false;
    this.#isAsked = false;
    this.#idle?.refresh();
    const arrived = this.#arrived;
    if (arrived !== undefined) {
      if (bytes.buffer === arrived.buffer && bytes.byteOffset === arrived.byteOffset + this.#arrivedBytes) {
        this.#arrivedBytes += bytes.length;
        return true;
      }
      this.#push();
      // Who was given them may have closed the connection.
      if (this.destroyed) return true;
    }
    this.#arrived = bytes;
    this.#arrivedBytes = bytes.length;
    if (!this.#isPushing) {
      this.#isPushing = true;
      setImmediate(this.#pushAtEndOfTurn);
    }
    return true;
  }

  readonly #pushAtEndOfTurn = (): void => {
    this.#isPushing = false;
    this.#push();
  };

  /** Hands to Node what arrived: many messages in one, because each push costs events, and often a write of who pipes. */
  #push(): void {
    const arrived = this.#arrived;
    if (arrived === undefined) return;
    const length = this.#arrivedBytes;
    this.#arrived = undefined;
    this.#arrivedBytes = 0;
    if (this.destroyed) return;
    this.push(arrived.length === length ? arrived : Buffer.from(arrived.buffer, arrived.byteOffset, length));
  }

  #endOfData(): void {
    if (this.#sawEnd) return;
    this.#sawEnd = true;
    this.#push();
    this.push(null);
  }

  #over(error: Error | undefined): void {
    this.#isRemoteClosed = true;
    this.#push();
    // Lost without an error: closed here, with the whole context.
    if (error !== undefined || (this.#messages.isRouterGone && !this.#sawEnd)) {
      this.destroy(error);
      return;
    }
    this.#endOfData();
    if (this.#written !== undefined) this.#write();
    // The other direction ends too, behind the data that is left to read.
    if (this.readableEnded) this.end();
    else this.once("end", () => this.end());
  }

  /** Runs `then` when the application has read everything that arrived. */
  #afterReading(then: () => void): void {
    if (this.readableEnded || this.readableLength === 0) then();
    else this.once("end", then);
  }

  override _read(): void {
    // What is being read still counts as unread: without a push after this there would never be another call.
    this.#isAsked = true;
    this.#messages.resume();
  }

  // To the other end --------------------------------------------------------------------------------------------------

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#startWriting([chunk], done);
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#startWriting(
      chunks.map((entry) => entry.chunk),
      done,
    );
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#messages.endWriting();
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#idle);
    this.#failWrites(error ?? new ConnectionClosedError(`the connection of ${this.service} was closed here`));
    this.#messages.close();
    done(error);
    process.nextTick(() => this.emit("close", error !== null));
  }

  #startWriting(chunks: Buffer[], done: (error?: Error | null) => void): void {
    this.#writing.start(chunks);
    this.#written = done;
    this.#write();
  }

  #write(): void {
    if (this.#written === undefined || this.destroyed) return;
    // With its router connection it is about to be lost, and told so.
    if (this.#messages.isRouterGone && !this.#isRemoteClosed) return;
    if (this.#isRemoteClosed) {
      // When there is data left to read, the application learns of the end behind it.
      this.#afterReading(() =>
        this.#failWrites(new ConnectionClosedError(`${this.service}: the other end closed the connection`)),
      );
      return;
    }
    this.#idle?.refresh();
    // Looked at before each piece: of thousands of connections none adds to an output that is full.
    while (!this.#messages.isFull) {
      const piece = this.#writing.next();
      if (piece === undefined) {
        this.#finishWriting();
        return;
      }
      this.#messages.write(piece);
    }
    this.#messages.awaitRoom();
  }

  #finishWriting(): void {
    const done = this.#written;
    this.#written = undefined;
    done?.();
  }

  #failWrites(error: Error): void {
    const done = this.#written;
    this.#written = undefined;
    this.#writing.start([]);
    done?.(error);
  }

  // As net.Socket -----------------------------------------------------------------------------------------------------

  /** Emits `timeout` after so many milliseconds without traffic; 0 turns it off. The connection stays open. */
  setTimeout(ms: number, listener?: () => void): this {
    clearTimeout(this.#idle);
    this.timeout = ms;
    this.#idle = ms > 0 && !this.destroyed ? setTimeout(() => this.emit("timeout"), ms) : undefined;
    // As with net.Socket it keeps no process alive.
    this.#idle?.unref();
    if (listener !== undefined) {
      if (ms > 0) this.once("timeout", listener);
      else this.off("timeout", listener);
    }
    return this;
  }

  /** `open`, or what is left of it: `readOnly`, `writeOnly`, `closed`. */
  get readyState(): string {
    if (this.readable) return this.writable ? "open" : "readOnly";
    return this.writable ? "writeOnly" : "closed";
  }

  /** Data always leaves at the end of the event-loop turn; here for libraries that ask. */
  setNoDelay(): this {
    return this;
  }

  /** Liveness is watched on the connection to the router; here for libraries that ask. */
  setKeepAlive(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  /** There is no reset on this network: the other end sees a close, this one no error. */
  resetAndDestroy(): this {
    return this.destroy();
  }

  /** Ends after everything written so far was handed to the router. */
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once("finish", () => this.destroy());
  }

  address(): { address: string; family: string; port: number } {
    return { address: this.localAddress, family: this.remoteFamily, port: this.localPort };
  }
}
