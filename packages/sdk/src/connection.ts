import { Duplex } from "node:stream";
import { ConnType, EdgeFlag, EdgeHeader, EdgeType, Headers, type Message } from "@sallyport/wire";
import {
  messageOverhead,
  type SessionKeys,
  type Sodium,
  type StreamDecryptor,
  type StreamEncryptor,
  streamHeaderBytes,
} from "./crypto/sodium.ts";
import { reserveData } from "./data-frame.ts";
import type { EdgeChannel, EdgeEndpoint } from "./edge-channel.ts";
import { ConnectionClosedError, EncryptionError, type SdkError } from "./errors.ts";
import { Lingering } from "./lingering.ts";
import { Pieces } from "./pieces.ts";
import { takeBuffer } from "./read-pool.ts";

/** Plain bytes in one message at most: encrypted and framed for a link it fills one TLS record. */
const chunkSize = 16_279;
/** Bytes that wait for the application before the whole router connection is paused. */
const maxUnread = 4 * 1024 * 1024;
const highWaterMark = 256 * 1024;
const noBytes = Buffer.alloc(0);

/** What is known about a connection when it is made. */
export interface ConnectionInfo {
  /** Name of the service. */
  readonly service: string;
  readonly circuitId: string;
  /** Hosted connections: name of the identity that dialled, as its router announced it. */
  readonly callerId?: string | undefined;
  /** Bytes that the dialer gave along. */
  readonly appData?: Buffer | undefined;
  readonly localName: string;
  readonly remoteName: string;
}

/** The keys of an encrypted connection. */
export interface ConnectionKeys {
  readonly sodium: Sodium;
  readonly keys: SessionKeys;
}

/**
 * A connection to or from a service: a byte stream in the shape of `net.Socket`. `end()` closes one direction, and data
 * from the other end still arrives (with `allowHalfOpen`). When the application does not read, or the router does not
 * take more, the sender is slowed down.
 */
export class EdgeConnection extends Duplex implements EdgeEndpoint {
  readonly connType = ConnType.Dial;
  readonly service: string;
  readonly circuitId: string;
  readonly callerId: string | undefined;
  readonly appData: Buffer | undefined;
  /** True when the bytes are encrypted between this process and the other end. */
  readonly isEncrypted: boolean;
  // What libraries written for net.Socket look at.
  readonly connecting = false;
  readonly pending = false;
  readonly remoteAddress: string;
  readonly remoteFamily = "overlay";
  readonly remotePort = 0;
  readonly localAddress: string;
  readonly localPort = 0;
  bytesRead = 0;
  bytesWritten = 0;
  timeout: number | undefined;

  readonly #edge: EdgeChannel;
  readonly #id: number;
  readonly #crypto: ConnectionKeys | undefined;
  readonly #encryptor: StreamEncryptor | undefined;
  #decryptor: StreamDecryptor | undefined;
  #announced = false;
  #sawEnd = false;
  #isRemoteClosed = false;
  /** Both ends have sent FIN, ours came last. */
  #endedLast = false;
  #idle: NodeJS.Timeout | undefined;
  /** What is being written, and who wants to know when it is. */
  readonly #writing = new Pieces(chunkSize);
  #written: ((error?: Error | null) => void) | undefined;
  #waitingForDrain = false;

  constructor(o: {
    edge: EdgeChannel;
    id: number;
    info: ConnectionInfo;
    crypto?: ConnectionKeys | undefined;
    allowHalfOpen: boolean;
  }) {
    super({
      allowHalfOpen: o.allowHalfOpen,
      // `close` comes from `_destroy`, with the word that net.Socket adds to it.
      emitClose: false,
      readableHighWaterMark: highWaterMark,
      writableHighWaterMark: highWaterMark,
    });
    this.#edge = o.edge;
    this.#id = o.id;
    this.#crypto = o.crypto;
    this.#encryptor = o.crypto?.sodium.encryptor(o.crypto.keys.transmit);
    this.isEncrypted = o.crypto !== undefined;
    this.service = o.info.service;
    this.circuitId = o.info.circuitId;
    this.callerId = o.info.callerId;
    this.appData = o.info.appData;
    this.localAddress = o.info.localName;
    this.remoteAddress = o.info.remoteName;
  }

  /** Sends what has to come before any data. Called once, when the other end is known to be there. */
  begin(): void {
    if (this.#encryptor !== undefined) this.#sendData(this.#encryptor.header, false);
  }

  describe(): string {
    return JSON.stringify({
      id: this.#id,
      service: this.service,
      circuitId: this.circuitId,
      encrypted: this.isEncrypted,
      bytesRead: this.bytesRead,
      bytesWritten: this.bytesWritten,
    });
  }

  // From the router ---------------------------------------------------------------------------------------------------

  onData(buffer: Buffer, start: number, end: number, flags: number): void {
    if (this.#sawEnd || this.destroyed) return;
    this.#idle?.refresh();
    if (end > start) {
      const plain = this.#crypto === undefined ? copyOf(buffer, start, end) : this.#decrypt(buffer, start, end);
      if (plain === undefined) return;
      if ((flags & EdgeFlag.MultipartMessage) === 0) this.#deliver(plain);
      else this.#deliverParts(plain);
    }
    if ((flags & EdgeFlag.Fin) !== 0) this.#endOfData();
  }

  onMessage(message: Message): void {
    if (message.contentType !== EdgeType.StateClosed) return;
    this.#remoteClosed();
  }

  onLost(reason: Error | undefined): void {
    // As with a TCP connection whose other end has said everything: what arrived can be read, and only a write fails.
    if (this.#sawEnd) {
      this.#remoteClosed();
      return;
    }
    this.#isRemoteClosed = true;
    // Without a reason we closed it ourselves: no failure.
    if (reason === undefined) {
      this.destroy();
      return;
    }
    const text = `the connection to router ${this.#edge.router} was lost: ${reason.message}; dial ${this.service} again`;
    this.destroy(new ConnectionClosedError(text, { cause: reason }));
  }

  #remoteClosed(): void {
    if (this.#isRemoteClosed) return;
    this.#isRemoteClosed = true;
    this.#edge.remove(this.#id, this);
    this.#endOfData();
    if (this.#written !== undefined) this.#write();
    // The other direction ends too, behind the data that is left to read.
    if (this.readableEnded) this.end();
    else this.once("end", () => this.end());
  }

  #decrypt(buffer: Buffer, from: number, end: number): Buffer | undefined {
    const crypto = this.#crypto;
    if (crypto === undefined) return undefined;
    let start = from;
    if (this.#decryptor === undefined) {
      if (end - start < streamHeaderBytes) {
        return this.#fail("expected the 24-byte header of an encrypted stream first");
      }
      const header = copyOf(buffer, start, start + streamHeaderBytes);
      this.#decryptor = crypto.sodium.decryptor(crypto.keys.receive, header);
      start += streamHeaderBytes;
      // Some implementations join the header with the first message.
      if (start === end) return noBytes;
    }
    if (end - start < messageOverhead) return this.#fail(`an encrypted message has at least ${messageOverhead} bytes`);
    const plain = takeBuffer(end - start - messageOverhead);
    if (this.#decryptor.decrypt(buffer.subarray(start, end), plain)) return plain;
    return this.#fail("a message was changed, lost or repeated on its way");
  }

  #fail(what: string): undefined {
    this.destroy(new EncryptionError("DECRYPTION_FAILED", `${this.service}: ${what}; the connection is closed`));
    return undefined;
  }

  #deliverParts(body: Buffer): void {
    for (let at = 0; at + 2 <= body.length; ) {
      const end = at + 2 + body.readUInt16LE(at);
      this.#deliver(body.subarray(at + 2, Math.min(end, body.length)));
      at = end;
    }
  }

  #deliver(bytes: Buffer): void {
    if (bytes.length === 0) return;
    this.bytesRead += bytes.length;
    if (!this.push(bytes) && this.readableLength >= maxUnread) this.#edge.pause(this);
  }

  #endOfData(): void {
    if (this.#sawEnd) return;
    this.#sawEnd = true;
    this.push(null);
  }

  /** Runs `then` when the application has read everything that arrived. */
  #afterReading(then: () => void): void {
    if (this.readableEnded || this.readableLength === 0) then();
    else this.once("end", then);
  }

  // To the router -----------------------------------------------------------------------------------------------------

  override _read(): void {
    this.#edge.resume(this);
  }

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
    if (!this.#isRemoteClosed && !this.#edge.isClosed) {
      this.#sendFin();
      this.#endedLast = this.#sawEnd;
    }
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    clearTimeout(this.#idle);
    this.#failWrites(error ?? new ConnectionClosedError(`the connection of ${this.service} was closed here`));
    this.#edge.remove(this.#id, this);
    if (this.#isRemoteClosed || this.#edge.isClosed) {
      // Nobody is left to tell.
    } else if (this.#endedLast) {
      new Lingering(this.#edge, this.#id);
    } else {
      this.#edge.channel.send({
        contentType: EdgeType.StateClosed,
        headers: new Headers().setU32(EdgeHeader.ConnId, this.#id),
      });
    }
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
    if (this.#edge.isClosed && !this.#isRemoteClosed) return;
    if (this.#isRemoteClosed) {
      // When there is data left to read, the application learns of the end behind it.
      this.#afterReading(() =>
        this.#failWrites(new ConnectionClosedError(`${this.service}: the other end closed the connection`)),
      );
      return;
    }
    if (this.#waitingForDrain) return;
    this.#idle?.refresh();
    const output = this.#edge.output;
    // Looked at before each piece: of thousands of connections none adds to an output that is full.
    while (!output.isFull) {
      const piece = this.#writing.next();
      if (piece === undefined) {
        this.#finishWriting();
        return;
      }
      this.#sendData(piece, true);
      this.bytesWritten += piece.length;
    }
    this.#waitingForDrain = true;
    output.onDrain(() => {
      this.#waitingForDrain = false;
      this.#write();
    });
  }

  #finishWriting(): void {
    const done = this.#written;
    this.#written = undefined;
    done?.();
  }

  #failWrites(error: SdkError | Error): void {
    const done = this.#written;
    this.#written = undefined;
    this.#writing.start([]);
    done?.(error);
  }

  /** Writes one Data frame into the router connection's output, the body last and in place. */
  #sendData(body: Uint8Array, isPlain: boolean): void {
    const encryptor = isPlain ? this.#encryptor : undefined;
    const bodyLength = body.length + (encryptor === undefined ? 0 : messageOverhead);
    // Boundaries mean nothing to a stream; said once, with the first message.
    const flags = this.#announced ? 0 : EdgeFlag.Stream;
    this.#announced = true;
    const output = this.#edge.output;
    const bodyAt = reserveData(output, this.#id, bodyLength, flags);
    const { slab } = output;
    if (encryptor === undefined) slab.set(body, bodyAt);
    else encryptor.encrypt(body, slab.subarray(bodyAt, bodyAt + bodyLength));
  }

  #sendFin(): void {
    reserveData(this.#edge.output, this.#id, 0, EdgeFlag.Fin);
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

function copyOf(buffer: Buffer, start: number, end: number): Buffer {
  const copy = takeBuffer(end - start);
  buffer.copy(copy, 0, start, end);
  return copy;
}
