import {
  BaseHeader,
  BaseType,
  type Channel,
  ControlType,
  controlJson,
  EdgeCtrlType,
  EdgeHeader,
  EdgeType,
  encodeControl,
  mgmtPb,
  type ObservedMessage,
} from "@sallyport/wire";

export type MessageObserver = (message: ObservedMessage) => void;

const lists = new WeakMap<Channel, Set<MessageObserver>>();

/** Lets several observe one channel, which itself has room for one. @returns ends it; the channel is then as fast as before */
export function observe(channel: Channel, observer: MessageObserver): () => void {
  const all = lists.get(channel) ?? new Set();
  lists.set(channel, all);
  all.add(observer);
  channel.observer = (message) => {
    for (const each of all) each(message);
  };
  return () => {
    all.delete(observer);
    if (all.size === 0) channel.observer = undefined;
  };
}

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
 * A message that passed a channel, as trace files and trace events have it (docs/router/observability.md, "Traces").
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

/** Longer bodies, such as the whole data model, are not decoded: their length says enough. */
const MAX_DECODED = 64 * 1024;
const MAX_TEXT = 1_000;
/** Names of fields whose values let others in. */
const SECRET = /token|secret|password/i;
const NOT_SHOWN = "(not shown)";

const EDGE_TYPES: ReadonlySet<number> = new Set(Object.values(EdgeType));

/**
 * What a message says, for people: its protobuf body as JSON, the outcome of a result, the connection of an edge message. Leaves out tokens and secrets.
 * Empty when the message cannot be decoded.
 */
export function decodedFields({ contentType, headers, body }: ObservedMessage): Readonly<Record<string, unknown>> {
  if (contentType === BaseType.Result) {
    const message = Buffer.from(body.subarray(0, MAX_TEXT)).toString("utf8");
    return { success: headers?.getBool(BaseHeader.ResultSuccess) ?? false, message };
  }
  if (EDGE_TYPES.has(contentType)) {
    const fields = {
      connId: headers?.getU32(EdgeHeader.ConnId),
      seq: headers?.getU32(EdgeHeader.Seq),
      circuitId: headers?.getString(EdgeHeader.CircuitId),
      errorCode: headers?.getU32(EdgeHeader.ErrorCode),
    };
    return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  }
  const fields = body.length > MAX_DECODED ? undefined : controlJson(contentType, body);
  return typeof fields === "object" && fields !== null && !Array.isArray(fields) ? withoutSecrets(fields) : {};
}

function withoutSecrets(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, SECRET.test(key) ? NOT_SHOWN : hidden(value)]),
  );
}

function hidden(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(hidden);
  return typeof value === "object" && value !== null ? withoutSecrets(value as Record<string, unknown>) : value;
}
