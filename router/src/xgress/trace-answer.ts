import { type ControlMessage, TraceHeader, XgressControl } from "@sallyport/wire";

/** The answer of the last hop of a trace route, which says what kind of end it is (docs/protocol/data-path.md, "Trace route"). */
export function traceAnswerAt(hopType: string, message: ControlMessage): ControlMessage {
  const headers = message.headers.clone();
  const hops = headers.getU32(TraceHeader.HopCount) ?? 0;
  headers.setU32(TraceHeader.HopCount, Math.max(0, hops - 1));
  headers.setString(TraceHeader.HopType, hopType).setString(TraceHeader.HopId, "");
  return { ...message, kind: XgressControl.TraceRouteResponse, headers };
}
