import {
  BaseHeader,
  type ControlMessage,
  EdgeHeader,
  EdgeType,
  Headers,
  type Message,
  type Outgoing,
  TraceHeader,
  XgressControl,
} from "@sallyport/wire";
import { traceAnswerAt } from "../xgress/trace-answer.ts";

/** The name of this kind of hop in an answer. */
const HOP_TYPE = "xgress/edge";
const MAX_TEXT = 1_024;

/** A trace route of an SDK, as the control message that follows the circuit; `undefined` when it ends at this hop. */
export function traceFromSdk(message: Message, circuitId: string): ControlMessage | undefined {
  const hops = message.headers.getU32(EdgeHeader.TraceHopCount) ?? 0;
  if (hops <= 1) return undefined;
  const headers = new Headers()
    .setU32(TraceHeader.HopCount, hops - 1)
    .setU64(TraceHeader.Timestamp, message.headers.getU64(EdgeHeader.Timestamp) ?? 0n)
    .setU32(TraceHeader.UserValue, message.sequence >>> 0);
  return { kind: XgressControl.TraceRoute, circuitId, headers };
}

/** This hop's own answer to an SDK. */
export function traceAnswerToSdk(connId: number, message: Message): Outgoing {
  const headers = new Headers()
    .setU32(EdgeHeader.ConnId, connId)
    .setU64(EdgeHeader.Timestamp, message.headers.getU64(EdgeHeader.Timestamp) ?? 0n)
    .setU32(EdgeHeader.TraceHopCount, 0)
    .setString(EdgeHeader.TraceHopType, HOP_TYPE)
    .setString(EdgeHeader.TraceHopId, "");
  return { contentType: EdgeType.TraceRouteResponse, headers };
}

/** The answer of a hop further on, for the SDK whose request had the user value as its sequence. */
export function traceResponseToSdk(connId: number, message: ControlMessage): Outgoing {
  const from = message.headers;
  const headers = new Headers()
    .setI32(BaseHeader.ReplyFor, (from.getU32(TraceHeader.UserValue) ?? 0) | 0)
    .setU32(EdgeHeader.ConnId, connId)
    .setU64(EdgeHeader.Timestamp, from.getU64(TraceHeader.Timestamp) ?? 0n)
    .setU32(EdgeHeader.TraceHopCount, from.getU32(TraceHeader.HopCount) ?? 0)
    .setString(EdgeHeader.TraceHopType, from.getString(TraceHeader.HopType) ?? "")
    .setString(EdgeHeader.TraceHopId, from.getString(TraceHeader.HopId) ?? "");
  const error = from.getString(TraceHeader.Error);
  if (error !== undefined) headers.setString(EdgeHeader.TraceError, error);
  return { contentType: EdgeType.TraceRouteResponse, headers };
}

/** This hop's answer to a trace route that came along the circuit; `undefined` when the SDK is to answer. */
export function answerAtEdge(message: ControlMessage): ControlMessage | undefined {
  const hops = message.headers.getU32(TraceHeader.HopCount) ?? 0;
  if (hops > 1) return undefined;
  return traceAnswerAt(HOP_TYPE, message);
}

/** A trace route that came along the circuit, for the SDK. */
export function traceRequestToSdk(connId: number, message: ControlMessage): Outgoing {
  const from = message.headers;
  const headers = new Headers()
    .setU32(EdgeHeader.ConnId, connId)
    .setU32(EdgeHeader.TraceHopCount, (from.getU32(TraceHeader.HopCount) ?? 1) - 1)
    .setU64(EdgeHeader.Timestamp, from.getU64(TraceHeader.Timestamp) ?? 0n)
    .setU32(EdgeHeader.TraceSourceRequestId, from.getU32(TraceHeader.UserValue) ?? 0);
  return { contentType: EdgeType.TraceRoute, headers };
}

/** Texts of SDKs travel over links that refuse large frames. */
function shortText(headers: Headers, key: number): string | undefined {
  return headers.getString(key)?.slice(0, MAX_TEXT);
}

/** An SDK's answer to a trace route, as the control message that goes back along the circuit. */
export function traceResponseFromSdk(message: Message, circuitId: string): ControlMessage {
  const from = message.headers;
  const headers = new Headers()
    .setU32(TraceHeader.HopCount, from.getU32(EdgeHeader.TraceHopCount) ?? 0)
    .setString(TraceHeader.HopType, shortText(from, EdgeHeader.TraceHopType) ?? "")
    .setString(TraceHeader.HopId, shortText(from, EdgeHeader.TraceHopId) ?? "")
    .setU64(TraceHeader.Timestamp, from.getU64(EdgeHeader.Timestamp) ?? 0n)
    .setU32(TraceHeader.UserValue, from.getU32(EdgeHeader.TraceSourceRequestId) ?? 0);
  const error = shortText(from, EdgeHeader.TraceError);
  if (error !== undefined) headers.setString(TraceHeader.Error, error);
  return { kind: XgressControl.TraceRouteResponse, circuitId, headers };
}
