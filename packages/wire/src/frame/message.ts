import { BaseHeader } from "../catalogue/base.ts";
import { FRAME_PREFIX_LENGTH, type FrameView, writeFramePrefix } from "./frame.ts";
import { Headers } from "./headers.ts";

/** A received message: an own copy of the frame's bytes, which may be kept. `replyFor` is set when it answers a request. */
export interface Message {
  contentType: number;
  sequence: number;
  headers: Headers;
  body: Buffer;
  replyFor?: number;
}

/** A message to send; the channel gives it its sequence. */
export interface Outgoing {
  contentType: number;
  headers?: Headers;
  body?: Uint8Array;
}

const NO_REPLY = -1;

/** The request a message with these headers answers; a value that is absent, -1 or not 4 bytes long answers none. */
function replyForOf(headers: Headers): number | undefined {
  const value = headers.getI32(BaseHeader.ReplyFor);
  return value === NO_REPLY ? undefined : value;
}

/**
 * Copies a frame into a message of its own.
 * @throws ProtocolError `BAD_HEADERS`
 */
export function messageOf(frame: FrameView): Message {
  const bytes = Buffer.allocUnsafeSlow(frame.end - frame.headersStart);
  frame.buffer.copy(bytes, 0, frame.headersStart, frame.end);
  const headersLength = frame.headersEnd - frame.headersStart;
  const headers = Headers.decode(bytes, 0, headersLength);
  const message: Message = {
    contentType: frame.contentType,
    sequence: frame.sequence,
    headers,
    body: bytes.subarray(headersLength),
  };
  const replyFor = replyForOf(headers);
  if (replyFor !== undefined) message.replyFor = replyFor;
  return message;
}

/** Bytes of the frame that carries `out`. */
export function frameLengthOf(out: Outgoing): number {
  return FRAME_PREFIX_LENGTH + (out.headers?.byteLength ?? 0) + (out.body?.length ?? 0);
}

/** Writes `out` as a frame at `offset`; returns the offset behind it. `frameLengthOf` says how many bytes that takes. */
export function writeMessage(buffer: Buffer, offset: number, out: Outgoing, sequence: number): number {
  const headersLength = out.headers?.byteLength ?? 0;
  const bodyLength = out.body?.length ?? 0;
  let at = writeFramePrefix(buffer, offset, out.contentType, sequence, headersLength, bodyLength);
  at = out.headers?.encodeInto(buffer, at) ?? at;
  if (out.body) buffer.set(out.body, at);
  return at + bodyLength;
}

/** `out` as a frame in a buffer of its own, for the few frames that go out beside a channel (hello and its result). */
export function encodeMessage(out: Outgoing, sequence: number): Buffer {
  const buffer = Buffer.alloc(frameLengthOf(out));
  writeMessage(buffer, 0, out, sequence);
  return buffer;
}
