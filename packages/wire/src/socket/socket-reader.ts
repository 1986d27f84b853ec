import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { StreamSocket } from "./stream-socket.ts";
import { installUserBuffer } from "./user-buffer.ts";

/** One read buffer for every socket of this thread: its bytes are consumed before the next socket is read. */
const SHARED = Buffer.allocUnsafeSlow(64 * 1024);
/** Bytes that may arrive behind a hello before a receiver is ready. */
const MAX_HELD = 256 * 1024;

/** How a socket is read: into the thread's shared buffer, or by 'data' events with a buffer of their own. */
export type ReadMode = "shared" | "data";

/**
 * Reads one socket, through the handshake and the life of the channel on it. Bytes go to the receiver that `deliver`
 * named; before that they are held, and the socket is paused.
 */
export class SocketReader {
  /** The option of `tls.connect` and `net.connect` that reads into the shared buffer. */
  readonly onread: { buffer: Uint8Array; callback: (bytes: number, buffer: Uint8Array) => boolean };
  #mode: ReadMode = "shared";
  #socket: Duplex | undefined;
  #receiver: ((buffer: Buffer, length: number) => void) | undefined;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #onClosed: (reason: Error | undefined) => void = () => {};
  #error: Error | undefined;
  #ended = false;

  constructor() {
    this.onread = {
      buffer: SHARED,
      callback: (bytes) => {
        this.#take(SHARED, bytes);
        return true;
      },
    };
  }

  get mode(): ReadMode {
    return this.#mode;
  }

  /** Takes over a socket that was connected with this reader's `onread`. */
  useDialled(socket: Socket): void {
    this.#socket = socket;
    this.#watch(socket);
  }

  /** Takes over a socket that exists already: an accepted one, or one inside a proxy's tunnel. */
  useExisting(socket: StreamSocket, preferred: ReadMode = "shared"): void {
    this.#socket = socket;
    this.#watch(socket);
    if (preferred === "shared" && this.#installUserBuffer(socket)) return;
    this.#mode = "data";
    const take = (chunk: Buffer): void => this.#take(chunk, chunk.length);
    socket.on("data", take);
    socket.readInPlace?.(take);
  }

  /** From now on bytes go to `receiver`, those held until now first; reading starts if it was paused. */
  deliver(receiver: (buffer: Buffer, length: number) => void): void {
    this.#receiver = receiver;
    const held = this.#held;
    this.#held = [];
    this.#heldBytes = 0;
    for (const bytes of held) this.#take(bytes, bytes.length);
    if (this.#receiver === receiver) this.#socket?.resume();
  }

  /** No receiver is ready: stops reading, and keeps what comes nevertheless. */
  hold(rest?: Buffer): void {
    this.#receiver = undefined;
    this.#socket?.pause();
    if (rest !== undefined && rest.length > 0) this.#keep(rest);
  }

  /** Calls `cb` once when the socket has ended, also if it has already; there is one such callback at a time. */
  onClosed(cb: (reason: Error | undefined) => void): void {
    this.#onClosed = cb;
    if (this.#ended) this.#finish();
  }

  #watch(socket: Duplex): void {
    socket.on("error", (error) => {
      this.#error ??= error;
      // A TLS connection stays open when what came cannot be decrypted, and never reads another byte.
      socket.destroy();
    });
    const ended = (): void => {
      this.#ended = true;
      this.#finish();
    };
    socket.on("end", ended);
    socket.on("close", ended);
    if (socket.destroyed) this.#ended = true;
  }

  #finish(): void {
    const cb = this.#onClosed;
    this.#onClosed = () => {};
    cb(this.#error);
  }

  #installUserBuffer(socket: Duplex): boolean {
    const early = installUserBuffer(socket, SHARED, (length) => this.onread.callback(length, SHARED));
    if (early === undefined) return false;
    for (const bytes of early) this.#keep(bytes);
    return true;
  }

  #take(buffer: Buffer, length: number): void {
    if (this.#receiver === undefined) {
      this.#keep(Buffer.from(buffer.subarray(0, length)));
    } else {
      this.#receiver(buffer, length);
    }
  }

  #keep(bytes: Buffer): void {
    this.#heldBytes += bytes.length;
    if (this.#heldBytes > MAX_HELD) {
      this.#held = [];
      this.#socket?.destroy();
      return;
    }
    this.#held.push(bytes);
  }
}
