import { describe, expect, it } from "vitest";
import { parseVersionRange } from "./os.ts";

describe("a version range", () => {
  it.each([
    ["10.0.19041", "10.0.19041", true],
    ["10.0.19041", "10.0.19042", false],
    [">=10.0.0 <11.0.0", "10.9.9", true],
    [">=10.0.0 <11.0.0", "11.0.0", false],
    [">=10.0.0 <11.0.0 || >=12.0.0", "12.1.0", true],
    ["  >=10.0.0  ", "10.0.0", true],
    [">=5.4.0", "6.8.0-45-generic", true],
    [">=6.8.0", "6.8.0-45-generic", false],
    [">=6.8.0", "6.8.0+build", true],
    [">1.0.0 !1.2.3", "1.2.3", false],
    [">1.0.0 !1.2.3", "1.2.4", true],
    [">1.0.0 !=1.2.3", "1.2.3", false],
    ["!1.2.3", "1.2.3", false],
    ["!1.2.3", "9.9.9", true],
    ["1.x", "1.9.0", true],
    ["*", "0.0.1", true],
    [">=22.4.0", "22.04", false],
    [">=1.0.0", "v1.2.3", true],
    [">=1.0.0", "", false],
    [">=1.0.0", "ten", false],
    [">=1.0.0", `1.0.${"9".repeat(500)}`, false],
  ])("%s holds %s: %s", (range, version, expected) => {
    expect(parseVersionRange(range)?.includes(version)).toBe(expected);
  });

  it.each(["", " ", "ten", ">=", ">=1.0.0 ||", "|| 1.0.0", "!", ">>1.0.0", "1.0.0 - ", "#"])(
    "is not written %j",
    (text) => {
      expect(parseVersionRange(text)).toBeUndefined();
    },
  );
});
