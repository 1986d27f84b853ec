import { BaseHeader, type FrameView, MAX_CIRCUIT_ID_LENGTH, XgressHeader } from "@sallyport/wire";

const CircuitIdKey = XgressHeader.CircuitId;
const FlagsKey = XgressHeader.Flags;
const HeartbeatKey = BaseHeader.Heartbeat;
const HeartbeatResponseKey = BaseHeader.HeartbeatResponse;

/**
 * The few headers the forwarder looks at, as offsets into the read buffer. One object is reused for all frames; nothing
 * is decoded but numbers (docs/protocol/data-path.md, "Forwarding").
 */
export class RoutingHeaders {
  /** The circuit id's bytes in `frame.buffer`; `idStart` is -1 when the frame has none. */
  idStart = -1;
  idEnd = -1;
  /** Payload flags; 0 when absent. */
  flags = 0;

  /** Reads `frame`'s header block. Returns false when the block is malformed or names no circuit. */
  read(frame: FrameView): boolean {
    const b = frame.buffer;
    const end = frame.headersEnd;
    this.idStart = -1;
    this.flags = 0;
    let p = frame.headersStart;
    while (p + 8 <= end) {
      const key = int32(b, p);
      const length = int32(b, p + 4);
      const value = p + 8;
      p = value + length;
      if (length < 0 || p > end) return false;
      if (key === CircuitIdKey) {
        this.idStart = value;
        this.idEnd = p;
      } else if (key === FlagsKey) {
        if (length === 4) this.flags = int32(b, value);
      }
    }
    return p === end && this.idStart >= 0 && this.idEnd - this.idStart <= MAX_CIRCUIT_ID_LENGTH;
  }
}

function int32(b: Buffer, p: number): number {
  return (b[p] as number) | ((b[p + 1] as number) << 8) | ((b[p + 2] as number) << 16) | ((b[p + 3] as number) << 24);
}

/**
 * Copies a frame without its heartbeat headers into `target` and returns the new length. Used for the rare payload or
 * acknowledgement on which a peer let its channel heartbeat ride.
 */
export function copyWithoutHeartbeat(frame: FrameView, target: Buffer): number {
  const b = frame.buffer;
  b.copy(target, 0, frame.start, frame.headersStart);
  let out = frame.headersStart - frame.start;
  const headersAt = out;
  let p = frame.headersStart;
  while (p + 8 <= frame.headersEnd) {
    const key = int32(b, p);
    const next = p + 8 + int32(b, p + 4);
    if (key !== HeartbeatKey && key !== HeartbeatResponseKey) {
      b.copy(target, out, p, next);
      out += next - p;
    }
    p = next;
  }
  target.writeInt32LE(out - headersAt, frame.headersStart - frame.start - 8);
  b.copy(target, out, frame.bodyStart, frame.end);
  return out + (frame.end - frame.bodyStart);
}
