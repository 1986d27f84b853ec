import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { ProtocolError } from "./errors.ts";

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
  // A field takes two bytes at least.
  if (body.length > 2 * mostFields && new FieldCount(mostFields).isExceededBy(body, nestedOf(schema))) {
    const text = `a ${schema.name} message of ${body.length} bytes has more than ${mostFields} fields`;
    throw new ProtocolError("TOO_MANY_FIELDS", text);
  }
  try {
    return fromBinary(schema, body);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ProtocolError("BODY_UNREADABLE", `expected a ${schema.name} message of ${body.length} bytes: ${reason}`, {
      cause,
    });
  }
}

const WireType = { Varint: 0, Fixed64: 1, Bytes: 2, Fixed32: 5 } as const;

/** Counts the fields of a message before it is decoded: objects cost a hundred times the bytes that ask for them. */
class FieldCount {
  #left: number;

  constructor(most: number) {
    this.#left = most;
  }

  /** Bytes that are no such message are left to the decoder, which says what is wrong with them. */
  isExceededBy(body: Uint8Array, nested: Nested, start = 0, end: number = body.length): boolean {
    for (let at = start; at < end; ) {
      if (--this.#left < 0) return true;
      const tag = varint(body, at, end);
      if (tag === undefined) return false;
      at = tag.next;
      switch (tag.value & 7) {
        case WireType.Varint:
          at = varint(body, at, end)?.next ?? end;
          break;
        case WireType.Fixed64:
          at += 8;
          break;
        case WireType.Fixed32:
          at += 4;
          break;
        case WireType.Bytes: {
          const length = varint(body, at, end);
          if (length === undefined || length.next + length.value > end) return false;
          at = length.next + length.value;
          const inner = nested.get(tag.value >>> 3);
          if (inner !== undefined && this.isExceededBy(body, inner(), length.next, at)) return true;
          break;
        }
        default:
          return false;
      }
    }
    return false;
  }
}

/** The fields of a message that are messages, by number. */
type Nested = ReadonlyMap<number, () => Nested>;

const known = new WeakMap<DescMessage, Nested>();

function nestedOf(schema: DescMessage): Nested {
  const nested =
    known.get(schema) ??
    new Map(
      schema.fields.flatMap(({ number, fieldKind, message }): [number, () => Nested][] => {
        if (message === undefined) return [];
        const inner = () => nestedOf(message);
        return [[number, fieldKind === "map" ? () => new Map([[2, inner]]) : inner]];
      }),
    );
  known.set(schema, nested);
  return nested;
}

function varint(body: Uint8Array, at: number, end: number): { value: number; next: number } | undefined {
  let value = 0;
  for (let next = at, factor = 1; next < end && next < at + 10; next++, factor *= 128) {
    const byte = body[next] ?? 0;
    value += (byte & 127) * factor;
    if (byte < 128) return { value, next: next + 1 };
  }
  return undefined;
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
