import { Duplex, type Writable } from "node:stream";
import { TLSSocket, type TLSSocketOptions } from "node:tls";
import { FRAME_MAGIC, FRAME_PREFIX_LENGTH } from "@sallyport/wire";
import type { WebSocket } from "ws";

/** Type, version and length in front of every TLS record. */
const RECORD_PREFIX_LENGTH = 5;
/** Bytes that may wait in the connection below while more are taken. */
const MAX_BELOW = 64 * 1024;
/** Messages are gathered below for this long at most. */
const GATHER_MS = 1;

type WriteDone = (error?: Error | null) => void;

/**
 * The bytes of a web socket as a stream for TLS. Each TLS record leaves as one message, because SDKs in browsers decrypt one record per message
 * (docs/protocol/channel.md, "Web sockets").
 */
export class WebSocketStream extends Duplex {
  readonly #socket: WebSocket;
  readonly #below: Writable;
  /** Bytes of a record of which the end has not come yet. */
  #partial: Buffer = Buffer.alloc(0);
  #bytesRead = 0;
  /** Since when the connection below gathers messages. */
  #gatheringSince: number | undefined;

  /** @param below the connection that carries the web socket */
  constructor(socket: WebSocket, below: Writable) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#below = below;
    socket.binaryType = "nodebuffer";
    socket.on("message", (message) => {
      this.#bytesRead += (message as Buffer).length;
      if (!this.push(message as Buffer)) socket.pause();
    });
    socket.once("error", (error) => this.destroy(error));
    socket.once("close", () => this.destroy());
  }

  get bytesRead(): number {
    return this.#bytesRead;
  }

  override _read(): void {
    if (this.#socket.isPaused) this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: WriteDone): void {
    const bytes = this.#partial.length === 0 ? chunk : Buffer.concat([this.#partial, chunk]);
    let at = 0;
    let last: Buffer | undefined;
    for (let end = recordEnd(bytes, at); end <= bytes.length; end = recordEnd(bytes, at)) {
      if (last !== undefined) this.#socket.send(last);
      last = bytes.subarray(at, end);
      at = end;
    }
    this.#partial = bytes.subarray(at);
    if (last === undefined) {
      done();
    } else if (this.#socket.bufferedAmount + last.length <= MAX_BELOW) {
      // TLS is given the next frame as soon as this is done: it has room, and need not wait for the connection below.
      this.#socket.send(last);
      done();
    } else {
      this.#socket.send(last, done);
      this.leave();
    }
  }

  /** More is about to come: the connection below gathers messages until `leave`, each of which would cost it a write. */
  gather(): void {
    const now = performance.now();
    if (this.#gatheringSince === undefined) this.#below.cork();
    else if (now - this.#gatheringSince < GATHER_MS) return;
    else {
      this.#below.uncork();
      this.#below.cork();
    }
    this.#gatheringSince = now;
  }

  leave(): void {
    if (this.#gatheringSince === undefined) return;
    this.#gatheringSince = undefined;
    this.#below.uncork();
  }

  override _final(done: WriteDone): void {
    this.leave();
    this.#socket.close();
    done();
  }

  override _destroy(error: Error | null, done: WriteDone): void {
    this.leave();
    this.#socket.close();
    done(error);
  }
}

/** Where the record that begins at `at` ends; beyond the bytes when it is not there as a whole. */
function recordEnd(bytes: Buffer, at: number): number {
  if (bytes.length - at < RECORD_PREFIX_LENGTH) return Number.POSITIVE_INFINITY;
  return at + RECORD_PREFIX_LENGTH + bytes.readUInt16BE(at + 3);
}

/**
 * TLS in which every frame begins a record of its own: a browser's SDK reads one frame from what it has decrypted, and leaves
 * the rest of it. Node makes one record of each write, and ends a write in the next turn of the event loop at the earliest:
 * a connection sends one frame a turn.
 */
export class FrameAlignedSocket extends TLSSocket {
  readonly #stream: WebSocketStream;

  constructor(stream: WebSocketStream, options: TLSSocketOptions) {
    super(stream, options);
    this.#stream = stream;
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: WriteDone): void {
    this._writev([{ chunk, encoding }], done);
  }

  override _writev(chunks: { chunk: Buffer; encoding: BufferEncoding }[], done: WriteDone): void {
    let index = 0;
    let at = 0;
    const next = (error?: Error | null): void => {
      const current = chunks[index];
      if (error || current === undefined) {
        this.#stream.leave();
        done(error);
        return;
      }
      const { chunk, encoding } = current;
      const start = at;
      at = frameEnd(chunk, start);
      const frame = chunk.subarray(start, at);
      if (at === chunk.length) {
        index++;
        at = 0;
      }
      const isLast = index === chunks.length;
      if (!isLast) this.#stream.gather();
      super._write(frame, encoding, next);
      if (isLast) this.#stream.leave();
    };
    next();
  }
}

/** Where the frame that begins at `at` ends. What is no whole frame is taken to the end. */
function frameEnd(bytes: Buffer, at: number): number {
  if (bytes.length - at < FRAME_PREFIX_LENGTH || bytes.readInt32LE(at) !== FRAME_MAGIC) return bytes.length;
  return Math.min(bytes.length, at + FRAME_PREFIX_LENGTH + bytes.readUInt32LE(at + 12) + bytes.readUInt32LE(at + 16));
}
