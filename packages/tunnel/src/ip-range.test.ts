import { isIP } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { contains, formatIp, formatRange, overlaps, parseIp, parseRange, withoutContained } from "./ip-range.ts";

const range = (text: string) => parseRange(text)!;

describe("ranges of addresses", () => {
  test.each([
    ["192.0.2.77/24", "192.0.2.0/24"],
    ["192.0.2.1", "192.0.2.1/32"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["2001:DB8:0:0:1::7/64", "2001:db8::/64"],
    ["::1", "::1/128"],
    ["::ffff:192.0.2.1", "192.0.2.1/32"],
    ["64:ff9b::192.0.2.1", "64:ff9b::c000:201/128"],
  ])("%s is %s", (text, normal) => expect(formatRange(range(text))).toBe(normal));

  test.each([
    "",
    "a",
    "1.2.3.4/",
    "1.2.3.4/33",
    "::/129",
    "1.2.3.4/-1",
    "1.2.3.4/8/8",
    "::ffff:1.2.3.4/104",
    "1.2.3/8",
  ])("%j is none", (text) => expect(parseRange(text)).toBe(undefined));

  test("addresses survive being written", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: (1n << 128n) - 1n }), (value) => {
        fc.pre(value >> 32n !== 0xffffn);
        const text = formatIp(6, value);
        expect(isIP(text)).toBe(6);
        expect(parseIp(text)).toEqual({ family: 6, value });
      }),
    );
    fc.assert(fc.property(fc.ipV4(), (text) => formatIp(4, parseIp(text)!.value) === text));
    fc.assert(fc.property(fc.ipV6(), (text) => parseIp(text) !== undefined));
  });

  test("an address is inside or not", () => {
    expect(contains(range("10.0.0.0/8"), parseIp("10.255.0.1")!)).toBe(true);
    expect(contains(range("10.0.0.0/8"), parseIp("11.0.0.0")!)).toBe(false);
    expect(contains(range("::/0"), parseIp("10.0.0.1")!)).toBe(false);
    expect(overlaps(range("10.1.0.0/16"), range("10.0.0.0/8"))).toBe(true);
    expect(overlaps(range("10.1.0.0/16"), range("10.2.0.0/16"))).toBe(false);
  });

  test("ranges inside others are left out", () => {
    const ranges = ["10.1.0.0/16", "10.0.0.0/8", "::1", "10.0.0.0/8", "192.0.2.1", "::/64"].map(range);
    expect(withoutContained(ranges).map(formatRange)).toEqual(["10.0.0.0/8", "192.0.2.1/32", "::/64"]);
  });
});
