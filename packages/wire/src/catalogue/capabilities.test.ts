import { expect, test } from "vitest";
import { ControllerCapability, capabilityMask, hasCapability, RouterCapability } from "./capabilities.ts";

test.each<[string, readonly number[], string]>([
  ["no bit", [], ""],
  ["controllers of OpenZiti 1.6", [1, 2, 3, 4], "1e"],
  ["controllers of OpenZiti 2.x", [1, 2, 3, 4, 5, 6], "7e"],
  ["one of several controllers", Object.values(ControllerCapability), "400000000000007e"],
  ["routers of OpenZiti 2.1", Object.values(RouterCapability), "4000000000000076"],
  ["bit 0 alone", [0], "01"],
  ["the first bit of a second byte", [8], "0100"],
])("the mask of %s", (_name, bits, hex) => {
  const mask = capabilityMask(bits);
  expect(mask.toString("hex")).toBe(hex);
  for (let bit = 0; bit < 80; bit++) expect(hasCapability(mask, bit)).toBe(bits.includes(bit));
});

test("masks of any length are read, also with leading zero bytes", () => {
  expect(hasCapability(undefined, 1)).toBe(false);
  for (let length = 1; length <= 9; length++) {
    const mask = Buffer.alloc(length);
    mask[length - 1] = 0x22;
    mask[0] = (mask[0] ?? 0) | 0x80;
    const set = Array.from({ length: 80 }, (_, bit) => bit).filter((bit) => hasCapability(mask, bit));
    expect(set).toEqual([1, 5, length * 8 - 1]);
  }
});
