import { Duplex } from "node:stream";
import type { InPlaceSocket, PresentedCertificate, SecureSocket } from "../stream-socket.ts";
import { Op, type OpenedConnection, TELL_AT, WINDOW } from "./messages.ts";

/** What a connection says to its thread. */
export interface ToThread {
  data(connection: number, bytes: Buffer): void;
  say(op: Op, connection: number, count?: number): void;
}

type WriteCallback = (error?: Error | null) => void;

/**
 * A connection whose TLS another thread does, as its users see it: like a TLS socket. Neither direction holds more than
 * `WINDOW`, and one write.
 */
export class ThreadSocket extends Duplex implements SecureSocket, InPlaceSocket {
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  readonly localAddress: string | undefined;
  readonly localPort: number | undefined;
  readonly #connection: number;
  readonly #thread: ToThread;
  readonly #presented: PresentedCertificate | undefined;
  #inPlace: ((bytes: Buffer) => void) | undefined;
  /** The thread has let go of it. */
  #isGone = false;
  #hasEnded = false;
  #arrived = 0;
  #told = 0;
  #unwritten = 0;
  #blocked: WriteCallback | undefined;
  #ending: WriteCallback | undefined;

  constructor(opened: OpenedConnection, thread: ToThread) {
    super({ allowHalfOpen: false });
    this.remoteAddress = opened.remoteAddress;
    this.remotePort = opened.remotePort;
    this.localAddress = opened.localAddress;
    this.localPort = opened.localPort;
    this.#connection = opened.connection;
    this.#thread = thread;
    this.#presented = opened.certificates.reduceRight<PresentedCertificate | undefined>(
      (issuerCertificate, der) => ({ raw: Buffer.from(der), issuerCertificate }),
      undefined,
    );
  }

  getPeerX509Certificate(): PresentedCertificate | undefined {
    return this.#presented;
  }

  readInPlace(take: (bytes: Buffer) => void): void {
    this.#inPlace = take;
  }

  /** Takes bytes that are valid during the call only. */
  arrived(bytes: Buffer): void {
    if (this.destroyed) return;
    this.#arrived += bytes.length;
    const isNext = this.readableFlowing === true && this.readableLength === 0;
    if (isNext && this.#inPlace !== undefined) this.#inPlace(bytes);
    else this.push(Buffer.from(bytes));
    this.#tell();
  }

  /** The other end sends nothing more. */
  ended(): void {
    this.#hasEnded = true;
    if (!this.destroyed) this.push(null);
  }

  /** So many bytes have left. */
  taken(bytes: number): void {
    this.#unwritten -= bytes;
    if (this.#unwritten > WINDOW) return;
    const done = this.#blocked;
    this.#blocked = undefined;
    done?.();
  }

  /** All has left, the end, too. */
  finished(): void {
    const done = this.#ending;
    this.#ending = undefined;
    done?.();
  }

  /** The thread has closed it; what arrived before is still read when it has ended well. */
  gone(error?: Error): void {
    this.#isGone = true;
    if (error !== undefined || !this.#hasEnded) this.destroy(error);
    this.taken(this.#unwritten);
    this.finished();
  }

  /** Reads what was kept, on behalf of `resume`, a pipe that has room again, or a loop. */
  override read(size?: number): Buffer | null {
    const bytes = super.read(size) as Buffer | null;
    this.#tell();
    return bytes;
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: WriteCallback): void {
    if (this.#isGone) {
      done();
      return;
    }
    this.#thread.data(this.#connection, bytes);
    this.#unwritten += bytes.length;
    if (this.#unwritten <= WINDOW) done();
    else this.#blocked = done;
  }

  override _final(done: WriteCallback): void {
    if (this.#isGone) {
      done();
      return;
    }
    this.#ending = done;
    this.#thread.say(Op.end, this.#connection);
  }

  override _destroy(error: Error | null, done: WriteCallback): void {
    if (!this.#isGone) this.#thread.say(Op.destroy, this.#connection);
    const waiting = [this.#blocked, this.#ending];
    this.#blocked = undefined;
    this.#ending = undefined;
    for (const cb of waiting) cb?.(error ?? new Error("the connection was closed"));
    done(error);
  }

  /** Tells the thread what was read, now and then. */
  #tell(): void {
    const read = this.#arrived - this.readableLength;
    if (read - this.#told < TELL_AT || this.#isGone || this.destroyed) return;
    this.#thread.say(Op.taken, this.#connection, read - this.#told);
    this.#told = read;
  }
}
