import fc from "fast-check";
import { expect, test } from "vitest";
import { bareHex, lowerCase, sameJson, sameSet } from "./comparison.ts";

test("sets are the same in any order, and none is as good as an absent one", () => {
  expect(sameSet(["a", "b"], ["b", "a", "a"])).toBe(true);
  expect(sameSet([], null)).toBe(true);
  expect(sameSet(undefined, [])).toBe(true);
  expect(sameSet(["a"], ["a", "b"])).toBe(false);
  expect(sameSet(["a"], undefined)).toBe(false);
  expect(sameSet(["A:b"], ["ab"], bareHex)).toBe(true);
  expect(sameSet(["Corp"], ["CORP"], lowerCase)).toBe(true);
  expect(sameSet(["Corp"], ["CORP"])).toBe(false);
});

test.each([
  [{ a: 1, b: [1, 2] }, { b: [1, 2], a: 1 }, true],
  [{ a: 1, b: undefined }, { a: 1 }, true],
  [{ a: null }, {}, false],
  [[1, 2], [2, 1], false],
  [[], {}, false],
  [{ a: "1" }, { a: 1 }, false],
  [{ a: 1 }, null, false],
  [0, -0, true],
])("%j is %j: %s", (wanted, found, expected) => {
  expect(sameJson(wanted, found)).toBe(expected);
});

test("any JSON is recognized as it comes back, its keys in another order", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (given) => {
      const reordered = (value: unknown): unknown => {
        if (Array.isArray(value)) return value.map(reordered);
        if (typeof value !== "object" || value === null) return value;
        return Object.fromEntries(
          Object.entries(value)
            .toReversed()
            .map(([key, each]) => [key, reordered(each)]),
        );
      };
      expect(sameJson(given, reordered(JSON.parse(JSON.stringify(given))))).toBe(true);
      expect(sameJson({ given, more: 1 }, { given })).toBe(false);
    }),
  );
});
