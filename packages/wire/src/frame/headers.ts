import { BaseHeader } from "../catalogue/base.ts";
import { ProtocolError } from "../errors.ts";

/** Lists and maps inside one header value hold at most this many entries, … */
const MAX_ENTRIES = 128;
/** … each text at most this long, in bytes. */
const MAX_ENTRY_LENGTH = 8_192;
/** Key and length in front of every header value. */
export const HEADER_ENTRY_PREFIX_LENGTH = 8;

/**
 * The headers of one message: numbered values in the order they were set (docs/protocol/channel.md, "Headers").
 *
 * Numbers are little endian. A typed getter that finds a value of the wrong length answers `undefined`, as if the header
 * were absent; `getStringList` and the maps throw a `ProtocolError`, which the handler of the message answers to.
 */
export class Headers {
  readonly #values = new Map<number, Buffer>();

  /**
   * Reads a header block. The values are views of `buffer`: give it bytes that stay.
   * @throws ProtocolError `BAD_HEADERS` when an entry is cut short or runs over the end of the block
   */
  static decode(buffer: Buffer, start: number, end: number): Headers {
    const headers = new Headers();
    let at = start;
    while (at < end) {
      if (end - at < HEADER_ENTRY_PREFIX_LENGTH) {
        throw badHeaders(`${end - at} bytes are left where a key and a length need ${HEADER_ENTRY_PREFIX_LENGTH}`);
      }
      const key = buffer.readInt32LE(at);
      const length = buffer.readUInt32LE(at + 4);
      at += HEADER_ENTRY_PREFIX_LENGTH;
      if (length > end - at) throw badHeaders(`header ${key} announces ${length} bytes where ${end - at} are left`);
      headers.#values.set(key, buffer.subarray(at, at + length));
      at += length;
    }
    return headers;
  }

  get size(): number {
    return this.#values.size;
  }

  /** Bytes that `encodeInto` writes. */
  get byteLength(): number {
    let total = 0;
    for (const value of this.#values.values()) total += HEADER_ENTRY_PREFIX_LENGTH + value.length;
    return total;
  }

  /** Writes the header block at `offset`; returns the offset behind it. */
  encodeInto(buffer: Buffer, offset: number): number {
    let at = offset;
    for (const [key, value] of this.#values) {
      buffer.writeInt32LE(key, at);
      buffer.writeUInt32LE(value.length, at + 4);
      buffer.set(value, at + HEADER_ENTRY_PREFIX_LENGTH);
      at += HEADER_ENTRY_PREFIX_LENGTH + value.length;
    }
    return at;
  }

  /** Independent of this one: setting a header in the copy does not touch the original. Values are shared. */
  clone(): Headers {
    const copy = new Headers();
    for (const [key, value] of this.#values) copy.#values.set(key, value);
    return copy;
  }

  entries(): IterableIterator<[number, Buffer]> {
    return this.#values.entries();
  }

  has(key: number): boolean {
    return this.#values.has(key);
  }

  delete(key: number): boolean {
    return this.#values.delete(key);
  }

  get(key: number): Buffer | undefined {
    return this.#values.get(key);
  }

  set(key: number, value: Uint8Array): this {
    this.#values.set(
      key,
      Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength),
    );
    return this;
  }

  getString(key: number): string | undefined {
    return this.#values.get(key)?.toString("utf8");
  }

  setString(key: number, value: string): this {
    return this.set(key, Buffer.from(value, "utf8"));
  }

  /** First byte of the value; 0 when the value is empty. */
  getByte(key: number): number | undefined {
    const value = this.#values.get(key);
    return value === undefined ? undefined : (value[0] ?? 0);
  }

  setByte(key: number, value: number): this {
    return this.set(key, Buffer.of(value & 0xff));
  }

  /** True only when the first byte is exactly 1. */
  getBool(key: number): boolean | undefined {
    const value = this.#values.get(key);
    return value === undefined ? undefined : value[0] === 1;
  }

  setBool(key: number, value: boolean): this {
    return this.set(key, Buffer.of(value ? 1 : 0));
  }

  getU16(key: number): number | undefined {
    return this.#sized(key, 2)?.readUInt16LE(0);
  }

  setU16(key: number, value: number): this {
    const bytes = Buffer.alloc(2);
    bytes.writeUInt16LE(value & 0xffff);
    return this.set(key, bytes);
  }

  getU32(key: number): number | undefined {
    return this.#sized(key, 4)?.readUInt32LE(0);
  }

  setU32(key: number, value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32LE(value >>> 0);
    return this.set(key, bytes);
  }

  getI32(key: number): number | undefined {
    return this.#sized(key, 4)?.readInt32LE(0);
  }

  setI32(key: number, value: number): this {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(value | 0);
    return this.set(key, bytes);
  }

  getU64(key: number): bigint | undefined {
    return this.#sized(key, 8)?.readBigUInt64LE(0);
  }

  setU64(key: number, value: bigint): this {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt.asUintN(64, value));
    return this.set(key, bytes);
  }

  /** @throws ProtocolError `BAD_HEADER_VALUE` */
  getStringList(key: number): string[] | undefined {
    return this.#collection(key, (reader, list: string[]) => list.push(reader.text()), []);
  }

  setStringList(key: number, values: readonly string[]): this {
    const parts: Buffer[] = [];
    for (const value of values) {
      const bytes = Buffer.from(value, "utf8");
      parts.push(u32(bytes.length), bytes);
    }
    return this.#setCollection(key, values.length, parts);
  }

  /** @throws ProtocolError `BAD_HEADER_VALUE` */
  getU32Map(key: number): Map<number, Buffer> | undefined {
    return this.#collection(
      key,
      (reader, map: Map<number, Buffer>) => map.set(reader.u32(), reader.bytes()),
      new Map<number, Buffer>(),
    );
  }

  setU32Map(key: number, values: ReadonlyMap<number, Uint8Array>): this {
    const parts: Buffer[] = [];
    for (const [name, value] of values) parts.push(u32(name), u32(value.length), Buffer.from(value));
    return this.#setCollection(key, values.size, parts);
  }

  /** @throws ProtocolError `BAD_HEADER_VALUE` */
  getStringMap(key: number): Map<string, string> | undefined {
    return this.#collection(
      key,
      (reader, map: Map<string, string>) => map.set(reader.text(), reader.text()),
      new Map<string, string>(),
    );
  }

  setStringMap(key: number, values: ReadonlyMap<string, string>): this {
    const parts: Buffer[] = [];
    for (const [name, value] of values) {
      const nameBytes = Buffer.from(name, "utf8");
      const valueBytes = Buffer.from(value, "utf8");
      parts.push(u32(nameBytes.length), nameBytes, u32(valueBytes.length), valueBytes);
    }
    return this.#setCollection(key, values.size, parts);
  }

  #sized(key: number, length: number): Buffer | undefined {
    const value = this.#values.get(key);
    return value?.length === length ? value : undefined;
  }

  #collection<T>(key: number, readEntry: (reader: EntryReader, into: T) => void, into: T): T | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    if (value.length === 0) return into;
    const reader = new EntryReader(key, value);
    const count = reader.u32();
    if (count > MAX_ENTRIES) throw badValue(key, `${count} entries where at most ${MAX_ENTRIES} are allowed`);
    for (let i = 0; i < count; i++) readEntry(reader, into);
    return into;
  }

  /** An empty list or map is an empty value. */
  #setCollection(key: number, count: number, parts: Buffer[]): this {
    return this.set(key, count === 0 ? Buffer.alloc(0) : Buffer.concat([u32(count), ...parts]));
  }
}

/**
 * Walks a header block without decoding it, so that what reads it in place later needs no bounds checks.
 * @returns whether a heartbeat (header 5) or the answer to one (6) is in it
 * @throws ProtocolError `BAD_HEADERS`
 */
export function scanHeaderBlock(buffer: Buffer, start: number, end: number): boolean {
  let heartbeat = false;
  let at = start;
  while (at < end) {
    if (end - at < HEADER_ENTRY_PREFIX_LENGTH) {
      throw badHeaders(`${end - at} bytes are left where a key and a length need ${HEADER_ENTRY_PREFIX_LENGTH}`);
    }
    const key = buffer.readInt32LE(at);
    const next = at + HEADER_ENTRY_PREFIX_LENGTH + buffer.readUInt32LE(at + 4);
    if (next > end) throw badHeaders(`header ${key} runs ${next - end} bytes over the end of the block`);
    if (key === BaseHeader.Heartbeat || key === BaseHeader.HeartbeatResponse) heartbeat = true;
    at = next;
  }
  return heartbeat;
}

/** Writes an entry of four bytes in place. @returns where the next one belongs */
export function writeU32Header(buffer: Buffer, at: number, key: number, value: number): number {
  buffer.writeInt32LE(key, at);
  buffer.writeInt32LE(4, at + 4);
  buffer.writeInt32LE(value | 0, at + HEADER_ENTRY_PREFIX_LENGTH);
  return at + HEADER_ENTRY_PREFIX_LENGTH + 4;
}

class EntryReader {
  readonly #key: number;
  readonly #value: Buffer;
  #at = 0;

  constructor(key: number, value: Buffer) {
    this.#key = key;
    this.#value = value;
  }

  u32(): number {
    if (this.#value.length - this.#at < 4) throw badValue(this.#key, "a number is cut short");
    const number = this.#value.readUInt32LE(this.#at);
    this.#at += 4;
    return number;
  }

  bytes(): Buffer {
    const length = this.u32();
    if (length > MAX_ENTRY_LENGTH) {
      throw badValue(this.#key, `an entry of ${length} bytes where at most ${MAX_ENTRY_LENGTH} are allowed`);
    }
    if (this.#value.length - this.#at < length) {
      throw badValue(this.#key, `an entry of ${length} bytes where ${this.#value.length - this.#at} are left`);
    }
    const bytes = this.#value.subarray(this.#at, this.#at + length);
    this.#at += length;
    return bytes;
  }

  text(): string {
    return this.bytes().toString("utf8");
  }
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
}

function badHeaders(what: string): ProtocolError {
  return new ProtocolError("BAD_HEADERS", `the header block of a frame is malformed: ${what}`);
}

function badValue(key: number, what: string): ProtocolError {
  return new ProtocolError("BAD_HEADER_VALUE", `header ${key} is malformed: ${what}`);
}
