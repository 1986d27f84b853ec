import { EdgeHeader } from "../../catalogue/edge.ts";
import { MAX_CIRCUIT_ID_LENGTH, XgressFlag, XgressHeader } from "../../catalogue/xgress.ts";
import type { Underlay } from "../../channel/channel.ts";
import { DEFAULT_LIMITS, FRAME_PREFIX_LENGTH, type FrameView } from "../../frame/frame.ts";
import { HEADER_ENTRY_PREFIX_LENGTH } from "../../frame/headers.ts";

const CONN_ID_ENTRY = HEADER_ENTRY_PREFIX_LENGTH + 4;
/** Headers to be cut out cost a copy each; SDKs send a connection id and little else. */
const MAX_FOREIGN_HEADERS = 16;

/**
 * A payload or acknowledgement that came over an edge channel, as it travels between routers: without the connection id
 * and whatever else is no circuit header. Those are cut out in place, in the memory the frame was read into. One object
 * is reused for all frames of a channel (docs/protocol/edge.md "Flow control by the SDK").
 */
export class CircuitFrame implements FrameView {
  buffer: Buffer = Buffer.alloc(0);
  start = 0;
  contentType = 0;
  sequence = 0;
  headersStart = 0;
  headersEnd = 0;
  bodyStart = 0;
  end = 0;
  readonly carriesHeartbeat = false;
  /** Connection id of the edge channel; -1: none. */
  connId = -1;
  idStart = -1;
  idEnd = -1;
  /** Bits of `XgressFlag`. */
  flags = 0;
  /** Of a payload, int32; -1: none. */
  payloadSequence = -1;

  /** Makes this the circuit's part of `frame`, which is not usable afterwards. False: it names no circuit, or is malformed. */
  take(frame: FrameView): boolean {
    const b = frame.buffer;
    const end = frame.headersEnd;
    this.connId = -1;
    this.idStart = -1;
    this.flags = 0;
    this.payloadSequence = -1;
    let start = frame.start;
    let foreign = 0;
    let at = frame.headersStart;
    while (at + HEADER_ENTRY_PREFIX_LENGTH <= end) {
      const key = b.readInt32LE(at);
      const length = b.readUInt32LE(at + 4);
      const value = at + HEADER_ENTRY_PREFIX_LENGTH;
      const next = value + length;
      if (next > end) return false;
      if (key < XgressHeader.FirstPayloadHeader || key > XgressHeader.Rtt) {
        if (key === EdgeHeader.ConnId && length === 4) this.connId = b.readUInt32LE(value);
        if (++foreign > MAX_FOREIGN_HEADERS) return false;
        const cut = next - at;
        b.copyWithin(start + cut, start, at);
        start += cut;
        // Headers come in any order: an id in front of this header has moved with the bytes.
        if (this.idStart >= 0) {
          this.idStart += cut;
          this.idEnd += cut;
        }
      } else if (key === XgressHeader.CircuitId) {
        // Of two ids the next router could take the other one, which may be another client's circuit.
        if (this.idStart >= 0) return false;
        this.idStart = value;
        this.idEnd = next;
      } else if (key === XgressHeader.Flags && length === 4) this.flags = b.readUInt32LE(value);
      else if (key === XgressHeader.Sequence && length === 8) this.payloadSequence = b.readInt32LE(value);
      at = next;
    }
    this.buffer = b;
    this.start = start;
    this.contentType = frame.contentType;
    this.sequence = frame.sequence;
    this.headersStart = start + FRAME_PREFIX_LENGTH;
    this.headersEnd = end;
    this.bodyStart = frame.bodyStart;
    this.end = frame.end;
    b.writeInt32LE(end - this.headersStart, start + 12);
    return at === end && this.idStart >= 0 && this.idEnd - this.idStart <= MAX_CIRCUIT_ID_LENGTH;
  }

  circuitId(): string {
    return this.buffer.toString("latin1", this.idStart, this.idEnd);
  }

  /** Sent by the terminating side of its circuit. */
  get isFromTerminator(): boolean {
    return (this.flags & XgressFlag.Terminator) !== 0;
  }
}

/**
 * Copies a circuit's frame into a connection's output with the connection id of the edge channel as its first header.
 *
 * @returns false when the frame has so many headers already that the other end would refuse it: it was dropped
 * @throws ChannelClosedError
 */
export function writeCircuitFrame(frame: FrameView, underlay: Underlay, connId: number): boolean {
  const headersLength = frame.headersEnd - frame.headersStart + CONN_ID_ENTRY;
  if (headersLength > DEFAULT_LIMITS.maxHeaders) return false;
  if (underlay.isClosed) return true;
  const output = underlay.output;
  const at = output.reserve(frame.end - frame.start + CONN_ID_ENTRY);
  const slab = output.slab;
  const entry = at + FRAME_PREFIX_LENGTH;
  frame.buffer.copy(slab, at, frame.start, frame.headersStart);
  slab.writeInt32LE(output.nextSequence(), at + 8);
  slab.writeInt32LE(headersLength, at + 12);
  slab.writeInt32LE(EdgeHeader.ConnId, entry);
  slab.writeInt32LE(4, entry + 4);
  slab.writeInt32LE(connId | 0, entry + HEADER_ENTRY_PREFIX_LENGTH);
  frame.buffer.copy(slab, entry + CONN_ID_ENTRY, frame.headersStart, frame.end);
  return true;
}

/** Copies a frame into a connection's output and gives it the channel's next sequence; nothing else of it changes. */
export function writeFrame(frame: FrameView, underlay: Underlay): void {
  if (underlay.isClosed) return;
  const output = underlay.output;
  const at = output.reserve(frame.end - frame.start);
  const slab = output.slab;
  frame.buffer.copy(slab, at, frame.start, frame.end);
  slab.writeInt32LE(output.nextSequence(), at + 8);
}
