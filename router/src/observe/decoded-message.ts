import { BaseHeader, BaseType, controlJson, EdgeHeader, EdgeType, type ObservedMessage } from "@sallyport/wire";

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
