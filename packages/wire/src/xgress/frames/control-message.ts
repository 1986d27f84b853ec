import { BaseHeader } from "../../catalogue/base.ts";
import { TraceHeader, XgressControl, XgressType } from "../../catalogue/xgress.ts";
import { FRAME_PREFIX_LENGTH, type FrameView, writeFramePrefix } from "../../frame/frame.ts";
import { Headers } from "../../frame/headers.ts";

/** Headers of the channel that carried the message; they must not travel further. */
const ChannelHeaders = [BaseHeader.Heartbeat, BaseHeader.HeartbeatResponse] as const;

export interface ControlMessage {
  readonly kind: number;
  readonly circuitId: string;
  readonly headers: Headers;
}

export interface ControlReply {
  /** True: the message goes back to where it came from. */
  readonly back: boolean;
  readonly frame: FrameView;
}

/** Reads a control message (1102); `undefined` when it is too short to name a circuit. */
export function readControl(frame: FrameView): ControlMessage | undefined {
  if (frame.end - frame.bodyStart < 2) return undefined;
  return {
    kind: frame.buffer[frame.bodyStart] as number,
    circuitId: frame.buffer.toString("latin1", frame.bodyStart + 1, frame.end),
    headers: Headers.decode(frame.buffer, frame.headersStart, frame.headersEnd),
  };
}

/** A control message as a frame of its own; the sequence is the output's business. */
export function controlFrame(message: ControlMessage): FrameView {
  const headersLength = message.headers.byteLength;
  const bodyLength = 1 + message.circuitId.length;
  const buffer = Buffer.alloc(FRAME_PREFIX_LENGTH + headersLength + bodyLength);
  writeFramePrefix(buffer, 0, XgressType.Control, 0, headersLength, bodyLength);
  const bodyStart = message.headers.encodeInto(buffer, FRAME_PREFIX_LENGTH);
  buffer[bodyStart] = message.kind;
  buffer.write(message.circuitId, bodyStart + 1, "latin1");
  return {
    buffer,
    start: 0,
    contentType: XgressType.Control,
    sequence: 0,
    headersStart: FRAME_PREFIX_LENGTH,
    headersEnd: bodyStart,
    bodyStart,
    end: buffer.length,
    carriesHeartbeat: false,
  };
}

/**
 * What the forwarder does with a control message: a trace route counts a hop and is answered when its count is used up
 * or it cannot go on; everything else passes.
 */
export function answerTraceRoute(frame: FrameView, routerId: string, unreachable: boolean): ControlReply {
  const message = readControl(frame);
  if (message === undefined) return { back: false, frame };
  const headers = message.headers;
  for (const key of ChannelHeaders) headers.delete(key);
  if (message.kind !== XgressControl.TraceRoute) return { back: false, frame: controlFrame(message) };
  const hops = headers.getU32(TraceHeader.HopCount) ?? 0;
  const left = Math.max(0, hops - 1);
  headers.setU32(TraceHeader.HopCount, left);
  if (left > 0 && !unreachable) return { back: false, frame: controlFrame(message) };
  headers.setString(TraceHeader.HopType, "forwarder").setString(TraceHeader.HopId, routerId);
  if (left > 0) headers.setString(TraceHeader.Error, `router ${routerId} has no way onwards for this circuit`);
  return { back: true, frame: controlFrame({ ...message, kind: XgressControl.TraceRouteResponse }) };
}
