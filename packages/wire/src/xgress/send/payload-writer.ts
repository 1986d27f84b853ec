import { PayloadHeader, XgressFlag, XgressHeader, XgressType } from "../../catalogue/xgress.ts";
import { FRAME_PREFIX_LENGTH } from "../../frame/frame.ts";
import { HEADER_ENTRY_PREFIX_LENGTH } from "../../frame/headers.ts";
import type { FramePool, KeptFrame } from "../frames/frame-pool.ts";
import { ms16, PayloadTemplate, payloadHeaders } from "../frames/payload.ts";

const EDGE_FLAGS_KEY = XgressHeader.FirstPayloadHeader + PayloadHeader.EdgeFlags;
const UUID_KEY = XgressHeader.FirstPayloadHeader + PayloadHeader.Uuid;
/** A flags header more than the frame was made with: what a retransmission adds in front. */
const FLAGS_ENTRY = HEADER_ENTRY_PREFIX_LENGTH + 4;

/** Turns what an application gives into what travels: encryption from end to end. */
export interface BodySealer {
  /** Bytes that a body is longer than what it is made from. */
  readonly overhead: number;
  /** Writes the body made from the bytes `start..end` of `buffer` to `target`, from `at` on. */
  seal(buffer: Buffer, start: number, end: number, target: Buffer, at: number): void;
}

/**
 * Builds the payload frames of one end of a circuit in pooled memory. The body is copied once, when it arrives from
 * outside; sequence, flags and clock are written when the frame is sent, and again when it is sent again.
 */
export class PayloadWriter {
  readonly #template: PayloadTemplate;
  readonly #pool: FramePool;
  /** Flags every payload of this side carries. */
  readonly #side: number;

  constructor(circuitId: string, isTerminator: boolean, pool: FramePool) {
    this.#template = new PayloadTemplate(circuitId);
    this.#pool = pool;
    this.#side = isTerminator ? XgressFlag.Terminator : 0;
  }

  /**
   * A payload with the bytes `start..end` of `buffer` as its body.
   *
   * @param edgeFlags flags of the edge message, -1: none
   * @param uuidStart trace id as offsets into `buffer`, -1: none
   * @param sealer makes the body from the bytes; without it they are the body
   */
  data(
    buffer: Buffer,
    start: number,
    end: number,
    edgeFlags: number,
    uuidStart: number,
    uuidEnd: number,
    sealer?: BodySealer,
  ): KeptFrame {
    const extra =
      (edgeFlags < 0 ? 0 : HEADER_ENTRY_PREFIX_LENGTH + 4) +
      (uuidStart < 0 ? 0 : HEADER_ENTRY_PREFIX_LENGTH + uuidEnd - uuidStart);
    const frame = this.#frame(this.#side, extra, end - start + (sealer === undefined ? 0 : sealer.overhead));
    const target = frame.buffer;
    let at = frame.bodyStart - extra;
    if (edgeFlags >= 0) {
      target.writeInt32LE(EDGE_FLAGS_KEY, at);
      target.writeInt32LE(4, at + 4);
      target.writeUInt32LE(edgeFlags >>> 0, at + HEADER_ENTRY_PREFIX_LENGTH);
      at += HEADER_ENTRY_PREFIX_LENGTH + 4;
    }
    if (uuidStart >= 0) {
      target.writeInt32LE(UUID_KEY, at);
      target.writeInt32LE(uuidEnd - uuidStart, at + 4);
      buffer.copy(target, at + HEADER_ENTRY_PREFIX_LENGTH, uuidStart, uuidEnd);
    }
    if (sealer === undefined) buffer.copy(target, frame.bodyStart, start, end);
    else sealer.seal(buffer, start, end, target, frame.bodyStart);
    return frame;
  }

  /** A payload without a body that says something by its flags, and its capabilities when they are not -1. */
  mark(flags: number, capabilities = -1): KeptFrame {
    const extra = capabilities < 0 ? undefined : payloadHeaders({ capabilities });
    const frame = this.#frame(flags | this.#side, extra?.length ?? 0, 0);
    if (extra !== undefined) frame.buffer.set(extra, frame.bodyStart - extra.length);
    return frame;
  }

  /** Writes what is only known when the frame leaves; `flags` go beside the frame's own. */
  stamp(frame: KeptFrame, sequence: number, now: number, flags = 0): void {
    const all = frame.flags | flags;
    // The frame was laid out for its own flags; with the first flag its header block starts earlier, the rest stays.
    const extraLength = frame.bodyStart - frame.start - this.#template.byteLength(frame.flags);
    frame.start = frame.bodyStart - extraLength - this.#template.byteLength(all);
    frame.headersStart = frame.start + FRAME_PREFIX_LENGTH;
    const extra = extraLength === 0 ? undefined : frame.buffer.subarray(frame.bodyStart - extraLength, frame.bodyStart);
    const bodyLength = frame.end - frame.bodyStart;
    this.#template.write(frame.buffer, frame.start, 0, sequence, all, ms16(now), bodyLength, extra);
    frame.flags = all;
  }

  #frame(flags: number, extraLength: number, bodyLength: number): KeptFrame {
    const slack = flags === 0 ? FLAGS_ENTRY : 0;
    const headers = this.#template.byteLength(flags) + extraLength;
    const frame = this.#pool.take(slack + headers + bodyLength);
    frame.contentType = XgressType.Payload;
    frame.flags = flags;
    frame.start = slack;
    frame.headersStart = slack + FRAME_PREFIX_LENGTH;
    frame.bodyStart = slack + headers;
    frame.headersEnd = frame.bodyStart;
    frame.end = frame.bodyStart + bodyLength;
    return frame;
  }
}
