import { PayloadHeader, XgressHeader, XgressType } from "../../catalogue/xgress.ts";
import { FRAME_PREFIX_LENGTH, type FrameView, writeFramePrefix } from "../../frame/frame.ts";
import { HEADER_ENTRY_PREFIX_LENGTH } from "../../frame/headers.ts";

const capabilitiesKey = XgressHeader.FirstPayloadHeader + PayloadHeader.Capabilities;
const edgeFlagsKey = XgressHeader.FirstPayloadHeader + PayloadHeader.EdgeFlags;
const uuidKey = XgressHeader.FirstPayloadHeader + PayloadHeader.Uuid;

/** Payload body with which a frame of a 22-character circuit id is 16,384 bytes long, one TLS record. */
export const ALIGNED_PAYLOAD_SIZE = 16_296;

/** The sender's clock as it travels in header 2260: milliseconds modulo 65,536. */
export function ms16(nowMs: number): number {
  return Math.trunc(nowMs) % 65_536;
}

/**
 * A payload seen in place (docs/protocol/xgress.md "Payload"): one reused object per reader, valid as long as the frame.
 */
export class PayloadView {
  buffer: Buffer = Buffer.alloc(0);
  idStart = 0;
  idEnd = 0;
  /** int32, counted by the sender from 0 in each direction. */
  sequence = 0;
  /** Bits of `XgressFlag`. */
  flags = 0;
  /** The sender's clock, see `ms16`; 0 when it sent none. */
  rtt = 0;
  bodyStart = 0;
  bodyEnd = 0;
  /** Bits of `XgressCapability`; -1 when the payload announces none. */
  capabilities = -1;
  /** Flags of the edge Data message (`EdgeFlag`), u32; -1 when there are none. */
  edgeFlags = -1;
  /** Trace id of the edge message; `uuidStart` is -1 when there is none. */
  uuidStart = -1;
  uuidEnd = -1;

  /** Bytes of data. */
  get size(): number {
    return this.bodyEnd - this.bodyStart;
  }

  circuitId(): string {
    return this.buffer.toString("latin1", this.idStart, this.idEnd);
  }
}

/**
 * Reads a Payload frame (type 1100) into `view`.
 *
 * @returns false when the circuit id or the sequence is missing or malformed: drop such a frame
 */
export function readPayload(frame: FrameView, view: PayloadView): boolean {
  const buffer = frame.buffer;
  view.buffer = buffer;
  view.idStart = -1;
  view.flags = 0;
  view.rtt = 0;
  view.capabilities = -1;
  view.edgeFlags = -1;
  view.uuidStart = -1;
  view.uuidEnd = -1;
  view.bodyStart = frame.bodyStart;
  view.bodyEnd = frame.end;
  let hasSequence = false;
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
    } else if (key === XgressHeader.Sequence) {
      if (length !== 8) return false;
      view.sequence = buffer.readInt32LE(value);
      hasSequence = true;
    } else if (key === XgressHeader.Flags) {
      if (length === 4) view.flags = buffer.readUInt32LE(value);
    } else if (key === XgressHeader.Rtt) {
      if (length === 2) view.rtt = buffer.readUInt16LE(value);
    } else if (key === edgeFlagsKey) {
      if (length === 4) view.edgeFlags = buffer.readUInt32LE(value);
    } else if (key === capabilitiesKey) {
      if (length === 4) view.capabilities = buffer.readUInt32BE(value);
    } else if (key === uuidKey) {
      view.uuidStart = value;
      view.uuidEnd = at;
    }
  }
  return hasSequence && view.idStart >= 0;
}

/** Header entries for {@link PayloadTemplate.write}: what travels with some payloads only. */
export function payloadHeaders(values: { capabilities?: number; edgeFlags?: number; uuid?: Uint8Array }): Buffer {
  const parts: Buffer[] = [];
  const entry = (key: number, value: Uint8Array) => {
    const prefix = Buffer.alloc(HEADER_ENTRY_PREFIX_LENGTH);
    prefix.writeInt32LE(key, 0);
    prefix.writeUInt32LE(value.length, 4);
    parts.push(prefix, Buffer.from(value));
  };
  if (values.capabilities !== undefined) {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(values.capabilities >>> 0);
    entry(capabilitiesKey, bytes);
  }
  if (values.edgeFlags !== undefined) {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(values.edgeFlags >>> 0);
    entry(edgeFlagsKey, bytes);
  }
  if (values.uuid !== undefined) entry(uuidKey, values.uuid);
  return Buffer.concat(parts);
}

/** The frame of a circuit's payloads without its data, with and without the flags header. */
export class PayloadTemplate {
  readonly #plain: Buffer;
  readonly #flagged: Buffer;
  /** Where the sequence value starts; the flags and the clock follow at fixed distances. */
  readonly #sequenceAt: number;

  constructor(circuitId: string) {
    this.#plain = template(circuitId, false);
    this.#flagged = template(circuitId, true);
    this.#sequenceAt =
      FRAME_PREFIX_LENGTH + HEADER_ENTRY_PREFIX_LENGTH + Buffer.byteLength(circuitId) + HEADER_ENTRY_PREFIX_LENGTH;
  }

  /** Bytes in front of the data. */
  byteLength(flags: number, extra?: Uint8Array): number {
    return (flags === 0 ? this.#plain.length : this.#flagged.length) + (extra?.length ?? 0);
  }

  /**
   * Writes everything in front of the data at `at`; returns where the data goes. The caller has reserved
   * `byteLength(flags, extra) + bodyLength` bytes.
   *
   * @param channelSequence of the channel that carries the frame
   * @param sequence of the payload, int32
   * @param rtt the clock now, see `ms16`
   * @param extra further header entries, see `payloadHeaders`
   */
  write(
    target: Buffer,
    at: number,
    channelSequence: number,
    sequence: number,
    flags: number,
    rtt: number,
    bodyLength: number,
    extra?: Uint8Array,
  ): number {
    const source = flags === 0 ? this.#plain : this.#flagged;
    source.copy(target, at);
    target.writeInt32LE(channelSequence | 0, at + 8);
    target.writeInt32LE(bodyLength, at + 16);
    const sequenceAt = at + this.#sequenceAt;
    target.writeInt32LE(sequence, sequenceAt);
    target.writeInt32LE(sequence >> 31, sequenceAt + 4);
    const end = at + source.length;
    if (flags !== 0) target.writeUInt32LE(flags, sequenceAt + 8 + HEADER_ENTRY_PREFIX_LENGTH);
    target.writeUInt16LE(rtt, end - 2);
    if (extra === undefined || extra.length === 0) return end;
    target.writeInt32LE(source.length - FRAME_PREFIX_LENGTH + extra.length, at + 12);
    target.set(extra, end);
    return end + extra.length;
  }
}

function template(circuitId: string, withFlags: boolean): Buffer {
  const id = Buffer.from(circuitId, "utf8");
  const headers =
    HEADER_ENTRY_PREFIX_LENGTH +
    id.length +
    (HEADER_ENTRY_PREFIX_LENGTH + 8) +
    (withFlags ? HEADER_ENTRY_PREFIX_LENGTH + 4 : 0) +
    (HEADER_ENTRY_PREFIX_LENGTH + 2);
  const buffer = Buffer.alloc(FRAME_PREFIX_LENGTH + headers);
  let at = writeFramePrefix(buffer, 0, XgressType.Payload, 0, headers, 0);
  at = prefix(buffer, at, XgressHeader.CircuitId, id.length);
  at += id.copy(buffer, at);
  at = prefix(buffer, at, XgressHeader.Sequence, 8) + 8;
  if (withFlags) at = prefix(buffer, at, XgressHeader.Flags, 4) + 4;
  prefix(buffer, at, XgressHeader.Rtt, 2);
  return buffer;
}

/** Writes key and length of a header entry; returns where its value goes. */
export function prefix(buffer: Buffer, at: number, key: number, length: number): number {
  buffer.writeInt32LE(key, at);
  buffer.writeUInt32LE(length, at + 4);
  return at + HEADER_ENTRY_PREFIX_LENGTH;
}
