import { XgressHeader, XgressType } from "../../catalogue/xgress.ts";
import { FRAME_PREFIX_LENGTH, type FrameView, writeFramePrefix } from "../../frame/frame.ts";
import { HEADER_ENTRY_PREFIX_LENGTH } from "../../frame/headers.ts";
import { prefix } from "../frames/payload.ts";

/** What a missing receive-buffer header means: no room at all. */
const NO_ROOM = 0xffff_ffff;

/** An acknowledgement seen in place: one reused object per reader, valid as long as the frame. */
export class AckView {
  buffer: Buffer = Buffer.alloc(0);
  idStart = 0;
  idEnd = 0;
  flags = 0;
  /** Bytes that the receiver holds. */
  receiveBufferSize = 0;
  /** Our clock of one of the payloads, echoed; 0 when this is no round-trip sample. */
  rtt = 0;
  bodyStart = 0;
  /** Number of acknowledged sequences; 0 reports the receive buffer only. */
  count = 0;

  circuitId(): string {
    return this.buffer.toString("latin1", this.idStart, this.idEnd);
  }

  /** The acknowledged sequence number `index` of the list, int32. */
  sequence(index: number): number {
    return this.buffer.readInt32BE(this.bodyStart + 4 * index);
  }
}

/**
 * Reads an Acknowledgement frame (type 1101) into `view`.
 *
 * @returns false when the circuit id is missing or the list of sequences is cut short: drop such a frame
 */
export function readAck(frame: FrameView, view: AckView): boolean {
  const buffer = frame.buffer;
  const bodyLength = frame.end - frame.bodyStart;
  view.buffer = buffer;
  view.idStart = -1;
  view.flags = 0;
  view.rtt = 0;
  view.receiveBufferSize = NO_ROOM;
  view.bodyStart = frame.bodyStart;
  view.count = bodyLength >>> 2;
  if (bodyLength % 4 !== 0) return false;
  let at = frame.headersStart;
  while (at + HEADER_ENTRY_PREFIX_LENGTH <= frame.headersEnd) {
    const key = buffer.readInt32LE(at);
    const length = buffer.readUInt32LE(at + 4);
    const value = at + HEADER_ENTRY_PREFIX_LENGTH;
    at = value + length;
    if (at > frame.headersEnd) return false;
    if (key === XgressHeader.CircuitId) {
      view.idStart = value;
      view.idEnd = at;
    } else if (key === XgressHeader.ReceiveBufferSize) {
      if (length === 4) view.receiveBufferSize = buffer.readUInt32LE(value);
    } else if (key === XgressHeader.Flags) {
      if (length === 4) view.flags = buffer.readUInt32LE(value);
    } else if (key === XgressHeader.Rtt) {
      if (length === 2) view.rtt = buffer.readUInt16LE(value);
    }
  }
  return view.idStart >= 0;
}

/** The frame of a circuit's acknowledgements without the list. */
export class AckTemplate {
  readonly #frame: Buffer;
  readonly #sizeAt: number;

  /** @param flags bits of `XgressFlag` that every acknowledgement of this side carries: `Terminator` or 0 */
  constructor(circuitId: string, flags: number) {
    const id = Buffer.from(circuitId, "utf8");
    const headers =
      HEADER_ENTRY_PREFIX_LENGTH +
      2 +
      HEADER_ENTRY_PREFIX_LENGTH +
      id.length +
      (flags === 0 ? 0 : HEADER_ENTRY_PREFIX_LENGTH + 4) +
      HEADER_ENTRY_PREFIX_LENGTH +
      4;
    this.#frame = Buffer.alloc(FRAME_PREFIX_LENGTH + headers);
    let at = writeFramePrefix(this.#frame, 0, XgressType.Acknowledgement, 0, headers, 0);
    at = prefix(this.#frame, at, XgressHeader.Rtt, 2) + 2;
    at = prefix(this.#frame, at, XgressHeader.CircuitId, id.length);
    at += id.copy(this.#frame, at);
    if (flags !== 0) {
      at = prefix(this.#frame, at, XgressHeader.Flags, 4);
      at = this.#frame.writeUInt32LE(flags, at);
    }
    this.#sizeAt = prefix(this.#frame, at, XgressHeader.ReceiveBufferSize, 4);
  }

  /** Bytes of a frame that acknowledges `count` sequences. */
  byteLength(count: number): number {
    return this.#frame.length + 4 * count;
  }

  /**
   * Writes a frame at `at`; returns the offset behind it.
   *
   * @param rtt the clock to echo; 0 in an empty acknowledgement
   * @param held bytes in the receive buffer
   * @param sequences of which the first `count` are acknowledged
   */
  write(
    target: Buffer,
    at: number,
    channelSequence: number,
    rtt: number,
    held: number,
    sequences: Int32Array,
    count: number,
  ): number {
    this.#frame.copy(target, at);
    target.writeInt32LE(channelSequence | 0, at + 8);
    target.writeInt32LE(4 * count, at + 16);
    target.writeUInt16LE(rtt, at + FRAME_PREFIX_LENGTH + HEADER_ENTRY_PREFIX_LENGTH);
    target.writeUInt32LE(Math.min(held, NO_ROOM - 1), at + this.#sizeAt);
    let end = at + this.#frame.length;
    for (let index = 0; index < count; index++) end = target.writeInt32BE(sequences[index] ?? 0, end);
    return end;
  }
}

/**
 * By how much the clock that is echoed is older than the one that came, in milliseconds. Batches wait for company, and a
 * program for its processor: senders of the peer, which repeat after one and a half of the round trips they measure, are
 * to expect that.
 */
export const ACK_ALLOWANCE_MS = 100;

/** The clock to echo for a payload that carried `clock`, both modulo 65,536; 0 stays 0, which is none. */
export function echoOf(clock: number): number {
  return clock === 0 ? 0 : (clock - ACK_ALLOWANCE_MS + 65_536) % 65_536 || 65_535;
}

/** When a batch of acknowledgements leaves. */
export interface AckBatchOptions {
  /** Sequences in one acknowledgement at most. */
  readonly maxSequences: number;
  /** Data bytes acknowledged at once at most: well below a sender's window, so that it never stands still. */
  readonly maxBytes: number;
}

export const ackBatchDefaults: AckBatchOptions = { maxSequences: 64, maxBytes: 512 * 1024 };

/**
 * Collects the acknowledgements of one direction of a circuit, so that one frame carries many. The owner writes the
 * batch when `add` says so, and otherwise within a few milliseconds.
 */
export class AckBatch {
  readonly #options: AckBatchOptions;
  readonly sequences: Int32Array;
  #count = 0;
  #bytes = 0;
  #rtt = 0;

  constructor(options: AckBatchOptions = ackBatchDefaults) {
    this.#options = options;
    this.sequences = new Int32Array(options.maxSequences);
  }

  get count(): number {
    return this.#count;
  }

  /** The clock to echo, see `echoOf`: of the oldest sequence in the batch. A younger one would measure a round trip too short. */
  get rtt(): number {
    return this.#rtt;
  }

  /**
   * Adds a payload that arrived.
   *
   * @param rtt the clock it carried
   * @returns true when the batch is full and must be written now, before the next `add`
   */
  add(sequence: number, rtt: number, size: number): boolean {
    if (this.#count === 0) this.#rtt = echoOf(rtt);
    this.sequences[this.#count++] = sequence;
    this.#bytes += size;
    return this.#count === this.sequences.length || this.#bytes >= this.#options.maxBytes;
  }

  /** Writes the batch and empties it; returns the offset behind the frame. `template.byteLength(count)` says how long it is. */
  write(template: AckTemplate, target: Buffer, at: number, channelSequence: number, held: number): number {
    const end = template.write(target, at, channelSequence, this.#rtt, held, this.sequences, this.#count);
    this.clear();
    return end;
  }

  clear(): void {
    this.#count = 0;
    this.#bytes = 0;
    this.#rtt = 0;
  }
}
