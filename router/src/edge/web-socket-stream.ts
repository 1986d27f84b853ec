import { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { FRAME_MAGIC, FRAME_PREFIX_LENGTH } from "@sallyport/wire";
import type { WebSocket } from "ws";

/** Type, version and length in front of every TLS record. */
const RECORD_PREFIX_LENGTH = 5;

type Done = (error?: Error | null) => void;

/**
 * The bytes of a web socket as a stream for TLS. Each TLS record leaves as one message: a browser's SDK decrypts one record for
 * each message that comes, and leaves the rest of it (docs/protocol/channel.md, "Web sockets").
 */
export class WebSocketStream extends Duplex {
  readonly #socket: WebSocket;
  /** Bytes of a record of which the end has not come yet. */
  #partial: Buffer = Buffer.alloc(0);

  constructor(socket: WebSocket) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    socket.binaryType = "nodebuffer";
    socket.on("message", (message) => {
      if (!this.push(message as Buffer)) socket.pause();
    });
    socket.once("error", (error) => this.destroy(error));
    socket.once("close", () => this.destroy());
  }

  override _read(): void {
    if (this.#socket.isPaused) this.#socket.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    const bytes = this.#partial.length === 0 ? chunk : Buffer.concat([this.#partial, chunk]);
    let at = 0;
    let last: Buffer | undefined;
    for (let end = recordEnd(bytes, at); end <= bytes.length; end = recordEnd(bytes, at)) {
      if (last !== undefined) this.#socket.send(last);
      last = bytes.subarray(at, end);
      at = end;
    }
    this.#partial = bytes.subarray(at);
    if (last === undefined) done();
    else this.#socket.send(last, done);
  }

  override _final(done: Done): void {
    this.#socket.close();
    done();
  }

  override _destroy(error: Error | null, done: Done): void {
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
 * the rest of it.
 */
export class FrameAlignedSocket extends TLSSocket {
  override _write(chunk: Buffer, encoding: BufferEncoding, done: Done): void {
    this.#writeFrames(chunk, 0, encoding, done);
  }

  override _writev(chunks: { chunk: Buffer; encoding: BufferEncoding }[], done: Done): void {
    const [first, ...rest] = chunks;
    if (first === undefined) {
      done();
      return;
    }
    this._write(first.chunk, first.encoding, (error) => {
      if (error) done(error);
      else this._writev(rest, done);
    });
  }

  #writeFrames(bytes: Buffer, at: number, encoding: BufferEncoding, done: Done): void {
    const end = frameEnd(bytes, at);
    super._write(bytes.subarray(at, end), encoding, (error) => {
      if (error || end === bytes.length) done(error);
      else this.#writeFrames(bytes, end, encoding, done);
    });
  }
}

/** Where the frame that begins at `at` ends. What is no whole frame is taken to the end. */
function frameEnd(bytes: Buffer, at: number): number {
  if (bytes.length - at < FRAME_PREFIX_LENGTH || bytes.readInt32LE(at) !== FRAME_MAGIC) return bytes.length;
  return Math.min(bytes.length, at + FRAME_PREFIX_LENGTH + bytes.readUInt32LE(at + 12) + bytes.readUInt32LE(at + 16));
}
