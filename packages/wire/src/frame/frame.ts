import { ProtocolError } from "../errors.ts";

/** Bytes before the header block of every frame: magic, content type, sequence, two lengths (docs/protocol/channel.md, "Frame"). */
export const FRAME_PREFIX_LENGTH = 20;
/** The four magic bytes `03 06 09 0c`, read as a little-endian integer. */
export const FRAME_MAGIC = 0x0c090603;
const MAGIC_LENGTH = 4;

/** What a listener says to a first frame of another version: magic `03 06 09 0a`, then the versions it could speak, 1 and 2. */
export const UNKNOWN_VERSION_RESPONSE: Buffer = Buffer.from("0306090a020000000100000002000000", "hex");

/** The largest frame parts accepted, in bytes. A frame that announces more is refused before any of it is stored. */
export interface FrameLimits {
  readonly maxHeaders: number;
  readonly maxBody: number;
}

/** Limits of a hello: a long token fits, a flood does not. */
export const HELLO_LIMITS: FrameLimits = { maxHeaders: 16_384, maxBody: 4_192 };

/** Limits of a channel whose owner chose none: 64 KiB of headers, 16 MiB of body. */
export const DEFAULT_LIMITS: FrameLimits = { maxHeaders: 65_536, maxBody: 16 * 1024 * 1024 };

/**
 * One frame, seen in place: offsets into `buffer`, which belongs to the parser.
 * It is ONE reused object, valid only until the callback that received it returns; copy what must stay.
 * `bodyStart` equals `headersEnd`; `end` is one past the last byte of the body.
 */
export interface FrameView {
  buffer: Buffer;
  start: number;
  contentType: number;
  sequence: number;
  headersStart: number;
  headersEnd: number;
  bodyStart: number;
  end: number;
  /** Set by a channel: header 5 or 6 is among the headers. It belongs to this connection and must not be forwarded. */
  carriesHeartbeat: boolean;
}

/** Writes the 20 bytes in front of a frame's header block at `offset`; returns the offset behind them. */
export function writeFramePrefix(
  buffer: Buffer,
  offset: number,
  contentType: number,
  sequence: number,
  headersLength: number,
  bodyLength: number,
): number {
  buffer.writeInt32LE(FRAME_MAGIC, offset);
  buffer.writeInt32LE(contentType, offset + 4);
  buffer.writeInt32LE(sequence, offset + 8);
  buffer.writeUInt32LE(headersLength, offset + 12);
  buffer.writeUInt32LE(bodyLength, offset + 16);
  return offset + FRAME_PREFIX_LENGTH;
}

/** A partial frame larger than this gives its buffer back when it is done, so that one large message costs memory once. */
const KEEP_PARTIAL = 128 * 1024;
const FIRST_PARTIAL = 4 * 1024;

/**
 * Cuts a byte stream into frames, whatever way the stream is split (docs/protocol/channel.md, "Frame").
 *
 * Frames that lie whole in a chunk are handed out in place. Only a frame that straddles chunks is copied, into one
 * buffer that is reused and grows with the bytes that really arrived, never with what a peer announces.
 * After an error the stream has no meaning any more: close the connection.
 */
export class FrameParser {
  limits: FrameLimits;
  readonly #onFrame: (frame: FrameView) => void;
  readonly #view: FrameView;
  #partial: Buffer = Buffer.alloc(0);
  #have = 0;
  /** Length of the straddling frame; 0 until its prefix is complete. */
  #want = 0;
  #stopped = false;

  constructor(limits: FrameLimits, onFrame: (frame: FrameView) => void) {
    this.limits = limits;
    this.#onFrame = onFrame;
    this.#view = {
      buffer: this.#partial,
      start: 0,
      contentType: 0,
      sequence: 0,
      headersStart: 0,
      headersEnd: 0,
      bodyStart: 0,
      end: 0,
      carriesHeartbeat: false,
    };
  }

  /** Bytes of an unfinished frame that the parser holds. */
  get bufferedBytes(): number {
    return this.#have;
  }

  /** Bytes of memory the parser has reserved for unfinished frames. */
  get reservedBytes(): number {
    return this.#partial.length;
  }

  /** Called within `onFrame`: no further frame is taken from the chunk at hand, and `push` says where it stopped. */
  stop(): void {
    this.#stopped = true;
  }

  /**
   * Takes the bytes `start..end` of `chunk`, calls `onFrame` for each frame that they complete, and returns the offset
   * of the first byte not taken (`end`, unless `stop` was called). The bytes are not needed any more afterwards.
   * @throws ProtocolError `BAD_MAGIC` or `FRAME_TOO_LARGE`
   */
  push(chunk: Buffer, start = 0, end: number = chunk.length): number {
    this.#stopped = false;
    let at = start;
    if (this.#have > 0) at = this.#complete(chunk, at, end);
    while (at < end && !this.#stopped) {
      const available = end - at;
      if (available < FRAME_PREFIX_LENGTH) {
        this.#keep(chunk, at, end);
        return end;
      }
      const length = this.#frameLength(chunk, at);
      if (available < length) {
        this.#want = length;
        this.#keep(chunk, at, end);
        return end;
      }
      this.#emit(chunk, at, length);
      at += length;
    }
    return at;
  }

  /** Feeds the frame begun in an earlier chunk; returns the offset behind the bytes it took. */
  #complete(chunk: Buffer, start: number, end: number): number {
    let at = start;
    if (this.#want === 0) {
      const take = Math.min(FRAME_PREFIX_LENGTH - this.#have, end - at);
      this.#append(chunk, at, at + take);
      at += take;
      if (this.#have < FRAME_PREFIX_LENGTH) {
        this.#checkMagic(this.#partial, 0, this.#have);
        return at;
      }
      this.#want = this.#frameLength(this.#partial, 0);
    }
    const take = Math.min(this.#want - this.#have, end - at);
    this.#append(chunk, at, at + take);
    at += take;
    if (this.#have === this.#want) {
      const length = this.#want;
      this.#have = 0;
      this.#want = 0;
      const buffer = this.#partial;
      // Taken out while the frame is handled: a callback that feeds this parser again must not overwrite it.
      this.#partial = Buffer.alloc(0);
      this.#emit(buffer, 0, length);
      if (buffer.length <= KEEP_PARTIAL && this.#partial.length === 0) this.#partial = buffer;
    }
    return at;
  }

  #keep(chunk: Buffer, start: number, end: number): void {
    this.#checkMagic(chunk, start, end);
    this.#append(chunk, start, end);
  }

  #append(chunk: Buffer, start: number, end: number): void {
    const need = this.#have + (end - start);
    if (need > this.#partial.length) {
      const doubled = Math.max(FIRST_PARTIAL, 2 * need);
      const size = this.#want > 0 ? Math.min(this.#want, doubled) : doubled;
      const grown = Buffer.allocUnsafeSlow(size);
      this.#partial.copy(grown, 0, 0, this.#have);
      this.#partial = grown;
    }
    chunk.copy(this.#partial, this.#have, start, end);
    this.#have = need;
  }

  #checkMagic(buffer: Buffer, start: number, end: number): void {
    if (end - start >= MAGIC_LENGTH && buffer.readInt32LE(start) !== FRAME_MAGIC) {
      const came = buffer.toString("hex", start, start + MAGIC_LENGTH);
      throw new ProtocolError("BAD_MAGIC", `expected a frame with magic 0306090c, got ${came}`);
    }
  }

  #frameLength(buffer: Buffer, start: number): number {
    this.#checkMagic(buffer, start, start + MAGIC_LENGTH);
    const headers = buffer.readUInt32LE(start + 12);
    const body = buffer.readUInt32LE(start + 16);
    if (headers > this.limits.maxHeaders || body > this.limits.maxBody) {
      throw new ProtocolError(
        "FRAME_TOO_LARGE",
        `a frame announces ${headers} bytes of headers and ${body} of body; at most ${this.limits.maxHeaders} and ${this.limits.maxBody} are accepted here`,
      );
    }
    return FRAME_PREFIX_LENGTH + headers + body;
  }

  #emit(buffer: Buffer, start: number, length: number): void {
    const view = this.#view;
    view.buffer = buffer;
    view.start = start;
    view.contentType = buffer.readInt32LE(start + 4);
    view.sequence = buffer.readInt32LE(start + 8);
    view.headersStart = start + FRAME_PREFIX_LENGTH;
    view.headersEnd = view.headersStart + buffer.readUInt32LE(start + 12);
    view.bodyStart = view.headersEnd;
    view.end = start + length;
    this.#onFrame(view);
  }
}
