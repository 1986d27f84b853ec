import { describe, expect, test } from "vitest";
import { ProtocolError } from "../errors.ts";
import { Headers, scanHeaderBlock } from "./headers.ts";

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(" ", ""), "hex");
const encoded = (headers: Headers): string => {
  const buffer = Buffer.alloc(headers.byteLength);
  expect(headers.encodeInto(buffer, 0)).toBe(buffer.length);
  return buffer.toString("hex");
};

describe("header values", () => {
  test("are little endian and as long as their type", () => {
    const headers = new Headers()
      .setU16(1, 0x1a2b)
      .setU32(2, 0xfffffffe)
      .setI32(3, -1)
      .setU64(4, 1755720000123456789n)
      .setByte(5, 0x107)
      .setBool(6, true)
      .setBool(7, false)
      .setString(8, "häuser");
    expect([...headers.entries()].map(([key, value]) => [key, value.toString("hex")])).toEqual([
      [1, "2b1a"],
      [2, "feffffff"],
      [3, "ffffffff"],
      [4, "154d68b409925d18"],
      [5, "07"],
      [6, "01"],
      [7, "00"],
      [8, Buffer.from("häuser").toString("hex")],
    ]);
    expect(headers.getU16(1)).toBe(0x1a2b);
    expect(headers.getU32(2)).toBe(0xfffffffe);
    expect(headers.getI32(3)).toBe(-1);
    expect(headers.getU64(4)).toBe(1755720000123456789n);
    expect(headers.getByte(5)).toBe(7);
    expect(headers.getString(8)).toBe("häuser");
  });

  test("of a wrong length count as absent", () => {
    const headers = new Headers().set(1, hex("010203"));
    expect([headers.getU16(1), headers.getU32(1), headers.getI32(1), headers.getU64(1)]).toEqual(
      Array.from({ length: 4 }, () => undefined),
    );
  });

  test("are true only when exactly 1, and an empty one is present", () => {
    const headers = new Headers().set(1, hex("02")).set(2, hex("")).set(3, hex("01ff"));
    expect([headers.getBool(1), headers.getBool(2), headers.getBool(3), headers.getBool(4)]).toEqual([
      false,
      false,
      true,
      undefined,
    ]);
    expect(headers.getByte(2)).toBe(0);
    expect(headers.getString(2)).toBe("");
  });

  test("hold lists and maps", () => {
    const headers = new Headers()
      .setStringList(1, ["a", "", "bc"])
      .setU32Map(2, new Map([[1003, hex("aabbcc")]]))
      .setStringMap(3, new Map([["os", "linux"]]))
      .setStringList(4, []);
    expect(headers.get(1)?.toString("hex")).toBe("0300000001000000610000000002000000" + "6263");
    expect(headers.get(2)?.toString("hex")).toBe("01000000eb03000003000000aabbcc");
    expect(headers.get(3)?.toString("hex")).toBe("01000000020000006f73050000006c696e7578");
    expect(headers.get(4)?.length).toBe(0);
    expect(headers.getStringList(1)).toEqual(["a", "", "bc"]);
    expect([...(headers.getU32Map(2) ?? [])]).toEqual([[1003, hex("aabbcc")]]);
    expect([...(headers.getStringMap(3) ?? [])]).toEqual([["os", "linux"]]);
    expect(headers.getStringList(4)).toEqual([]);
    expect(headers.getStringList(5)).toBeUndefined();
  });

  test.each([
    ["a list cut short", "02000000 01000000 61"],
    ["an entry over the end", "01000000 05000000 61"],
    ["too many entries", "81000000"],
    ["an entry that is too long", `01000000 01200000 ${"61".repeat(8193)}`],
    ["half a number", "0100"],
  ])("reject %s with a ProtocolError", (_what, bytes) => {
    expect(() => new Headers().set(1, hex(bytes)).getStringList(1)).toThrow(ProtocolError);
  });
});

describe("a header block", () => {
  test("keeps its order, and the last of two equal keys", () => {
    const block = "0900000001000000010200000001000000ff0900000001000000" + "00";
    const headers = Headers.decode(hex(block), 0, block.length / 2);
    expect([...headers.entries()].map(([key, value]) => [key, value.toString("hex")])).toEqual([
      [9, "00"],
      [2, "ff"],
    ]);
    expect(encoded(headers)).toBe("090000000100000000" + "0200000001000000ff");
  });

  test.each([
    ["of less than an entry's prefix", "01020304050607"],
    ["whose last entry is cut short", "0100000001000000ff 02000000"],
    ["whose value runs over the end", "0100000002000000ff"],
    ["with the largest length there is", "01000000ffffffffff"],
  ])("%s is malformed", (_what, bytes) => {
    const block = hex(bytes);
    expect(() => Headers.decode(block, 0, block.length)).toThrow(ProtocolError);
    expect(() => scanHeaderBlock(block, 0, block.length)).toThrow(ProtocolError);
  });

  test("is scanned for heartbeats", () => {
    const block = (headers: Headers): boolean => {
      const buffer = hex(encoded(headers));
      return scanHeaderBlock(buffer, 0, buffer.length);
    };
    expect(block(new Headers())).toBe(false);
    expect(block(new Headers().setU32(2258, 5).setU64(2257, 6n))).toBe(false);
    expect(block(new Headers().setU32(2258, 5).setU64(5, 6n))).toBe(true);
    expect(block(new Headers().setU64(6, 6n))).toBe(true);
  });

  test("can be copied and changed without touching the original", () => {
    const original = new Headers().setU32(1, 1);
    const copy = original.clone().setU32(2, 2).setU32(1, 3);
    expect([original.size, original.getU32(1), copy.size, copy.getU32(1)]).toEqual([1, 1, 2, 3]);
    expect(copy.delete(1)).toBe(true);
    expect(original.has(1)).toBe(true);
  });
});
