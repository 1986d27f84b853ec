import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

/**
 * Has a message more fields than `max`, those of nested messages and the elements of packed lists included? Asked before it is decoded: objects cost a
 * hundred times the bytes that ask for them. It goes through the bytes as the decoder does.
 *
 * @throws Error for bytes on which the two could differ: groups, fields of another wire type than declared, messages that reach beyond the one around them
 */
export function hasMoreFields(schema: DescMessage, body: Uint8Array, max: number): boolean {
  return new FieldCount(body, max).isExceeded(fieldsOf(schema), body.length);
}

class FieldCount {
  readonly #reader: BinaryReader;
  #left: number;

  constructor(body: Uint8Array, max: number) {
    this.#reader = new BinaryReader(body);
    this.#left = max;
  }

  isExceeded(fields: Fields, end: number): boolean {
    const reader = this.#reader;
    while (reader.pos < end) {
      if (--this.#left < 0) return true;
      const [number, wireType] = reader.tag();
      if (wireType === WireType.StartGroup || wireType === WireType.EndGroup) {
        throw new Error(`field ${number} is a group`);
      }
      const field = fields.get(number);
      if (field === undefined || (wireType === field.wireType && field.inner === undefined)) {
        reader.skip(wireType);
      } else if (wireType === WireType.LengthDelimited && field.inner !== undefined) {
        if (this.#isExceededIn(field.inner(), end)) return true;
      } else if (wireType === WireType.LengthDelimited && field.isPacked) {
        if (this.#isExceededByElements(field.wireType, end)) return true;
      } else {
        throw new Error(`field ${number} has wire type ${wireType}`);
      }
    }
    assertWithin(reader, end);
    return false;
  }

  #isExceededIn(fields: Fields, outerEnd: number): boolean {
    return this.isExceeded(fields, this.#endWithin(outerEnd));
  }

  #isExceededByElements(wireType: WireType, outerEnd: number): boolean {
    const end = this.#endWithin(outerEnd);
    while (this.#reader.pos < end) {
      if (--this.#left < 0) return true;
      this.#reader.skip(wireType);
    }
    assertWithin(this.#reader, end);
    return false;
  }

  #endWithin(outerEnd: number): number {
    const length = this.#reader.uint32();
    const end = this.#reader.pos + length;
    if (end > outerEnd) throw new RangeError(`${length} bytes do not fit into the message around them`);
    return end;
  }
}

function assertWithin(reader: BinaryReader, end: number): void {
  if (reader.pos > end) throw new RangeError("a field reaches beyond its message");
}

interface WireField {
  /** Of one element. */
  readonly wireType: WireType;
  /** Its elements may also stand one behind the other. */
  readonly isPacked?: boolean;
  /** The fields of a message or of a map's entry. */
  readonly inner?: () => Fields;
}

/** By number. */
type Fields = ReadonlyMap<number, WireField>;

const known = new WeakMap<DescMessage, Fields>();

function fieldsOf(schema: DescMessage): Fields {
  const fields = known.get(schema) ?? new Map(schema.fields.map((field) => [field.number, shapeOf(field)]));
  known.set(schema, fields);
  return fields;
}

function shapeOf(field: DescField): WireField {
  switch (field.fieldKind) {
    case "message":
      return nested(field.message);
    case "enum":
      return { wireType: WireType.Varint };
    case "scalar":
      return { wireType: wireTypeOf(field.scalar) };
    case "list": {
      if (field.listKind === "message") return nested(field.message);
      const wireType = field.listKind === "enum" ? WireType.Varint : wireTypeOf(field.scalar);
      return { wireType, isPacked: wireType !== WireType.LengthDelimited };
    }
    case "map": {
      const key: WireField = { wireType: wireTypeOf(field.mapKey) };
      const entry = new Map([
        [1, key],
        [2, entryValue(field)],
      ]);
      return { wireType: WireType.LengthDelimited, inner: () => entry };
    }
  }
}

function entryValue(field: DescField & { fieldKind: "map" }): WireField {
  if (field.mapKind === "message") return nested(field.message);
  return { wireType: field.mapKind === "enum" ? WireType.Varint : wireTypeOf(field.scalar) };
}

function nested(message: DescMessage): WireField {
  return { wireType: WireType.LengthDelimited, inner: () => fieldsOf(message) };
}

function wireTypeOf(scalar: ScalarType): WireType {
  switch (scalar) {
    case ScalarType.STRING:
    case ScalarType.BYTES:
      return WireType.LengthDelimited;
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return WireType.Bit64;
    case ScalarType.FLOAT:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return WireType.Bit32;
    default:
      return WireType.Varint;
  }
}
