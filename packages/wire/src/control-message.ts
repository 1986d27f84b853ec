import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { errorText } from "@sallyport/async";
import { ProtocolError } from "./errors.ts";
import { hasMoreFields } from "./field-count.ts";

/**
 * The body of a control message: the protobuf encoding of the fields given, all others at their defaults.
 *
 * @example channel.send({ contentType: ControlType.Unroute, body: encodeControl(ctrlPb.UnrouteSchema, { circuitId, now: true }) })
 */
export function encodeControl<S extends DescMessage>(schema: S, fields: MessageInitShape<S>): Buffer {
  const bytes = toBinary(schema, create(schema, fields));
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * Reads the body of a control message. 64-bit numbers are `bigint`, fields of type bytes are views of `body`.
 *
 * @param mostFields fields that it may have, those of nested messages included; any number when not given
 * @throws ProtocolError `BODY_UNREADABLE` when the bytes are not such a message, `TOO_MANY_FIELDS`
 */
export function decodeControl<S extends DescMessage>(
  schema: S,
  body: Uint8Array,
  mostFields: number = Number.POSITIVE_INFINITY,
): MessageShape<S> {
  try {
    // A field takes two bytes at least, an element of a packed list one.
    const isCounted = body.length > mostFields;
    if (!isCounted || !hasMoreFields(schema, body, mostFields)) return fromBinary(schema, body);
  } catch (cause) {
    const reason = errorText(cause);
    throw new ProtocolError("BODY_UNREADABLE", `expected a ${schema.name} message of ${body.length} bytes: ${reason}`, {
      cause,
    });
  }
  const text = `a ${schema.name} message of ${body.length} bytes has more than ${mostFields} fields`;
  throw new ProtocolError("TOO_MANY_FIELDS", text);
}

/** Peer data and the like arrive as objects with number keys; this is the map that headers use. */
export function byteMap(fields: { readonly [key: number]: Uint8Array }): Map<number, Buffer> {
  return new Map(
    Object.entries(fields).map(([key, value]) => [
      Number(key),
      Buffer.from(value.buffer, value.byteOffset, value.byteLength),
    ]),
  );
}
