import { ControlType, EdgeCtrlType, EdgeType, encodeControl, mgmtPb, type ObservedMessage } from "@sallyport/wire";

const NS_PER_MS = 1_000_000n;

const NAMES: ReadonlyMap<number, string> = new Map(
  [ControlType, EdgeCtrlType].flatMap((types) => Object.entries(types).map(([name, type]) => [type, name] as const)),
);
const EDGE_NAMES: ReadonlyMap<number, string> = new Map(Object.entries(EdgeType).map(([name, type]) => [type, name]));

/** Nanoseconds of Unix time, as traces have them. */
export function traceTime(now = Date.now()): bigint {
  return BigInt(now) * NS_PER_MS;
}

/** A message that passed a channel, as trace files and trace events have it (docs/router-observability.md, "Traces"). */
export function tracedMessage(routerId: string, channel: string, message: ObservedMessage): Buffer {
  const { contentType, isReceived, sequence, replyFor, length } = message;
  const [decoder, name] = NAMES.has(contentType)
    ? ["ctrl", NAMES.get(contentType)]
    : ["edge", EDGE_NAMES.get(contentType)];
  const decode = name === undefined ? "" : JSON.stringify({ __decoder__: decoder, __message__: name });
  return encodeControl(mgmtPb.TraceEventSchema, {
    timestamp: traceTime(),
    identity: routerId,
    channel,
    isRx: isReceived,
    contentType,
    sequence,
    replyFor,
    length,
    decode: Buffer.from(decode, "utf8"),
  });
}
