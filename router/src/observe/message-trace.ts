import {
  BaseType,
  ControlType,
  EdgeCtrlType,
  EdgeType,
  encodeControl,
  mgmtPb,
  type ObservedMessage,
} from "@sallyport/wire";

const NS_PER_MS = 1_000_000n;

const namesOf = (...tables: Readonly<Record<string, number>>[]): ReadonlyMap<number, string> =>
  new Map(tables.flatMap((types) => Object.entries(types).map(([name, type]) => [type, name] as const)));

const DECODERS: readonly (readonly [decoder: string, names: ReadonlyMap<number, string>])[] = [
  ["ctrl", namesOf(ControlType, EdgeCtrlType)],
  ["edge", namesOf(EdgeType)],
  ["channel", namesOf(BaseType)],
];

/** Nanoseconds of Unix time, as traces have them. */
export function traceTime(now = Date.now()): bigint {
  return BigInt(now) * NS_PER_MS;
}

/**
 * A message that passed a channel, as trace files and trace events have it (docs/router-observability.md, "Traces").
 * @param fields what the message says, for files; without them its name is all that is told
 */
export function tracedMessage(
  routerId: string,
  channel: string,
  message: ObservedMessage,
  fields: Readonly<Record<string, unknown>> = {},
): Buffer {
  const { contentType, isReceived, sequence, replyFor, length } = message;
  const [decoder, names] = DECODERS.find(([, each]) => each.has(contentType)) ?? [];
  const name = names?.get(contentType);
  const decode = name === undefined ? "" : JSON.stringify({ __decoder__: decoder, __message__: name, ...fields });
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
