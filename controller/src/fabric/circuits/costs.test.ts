import { describe, expect, test } from "vitest";
import { biasedCost, DynamicCosts } from "./costs.ts";

describe("biased cost", () => {
  test.each([
    ["default, cost 100, one circuit, one failed dial, one link of 3+4 ms", "default", 100, 22, 18, 262_280],
    ["free required terminator", "required", 0, 0, 0, 0],
    ["required is cut at the top of its band", "required", 65_535, 65_535, 2 ** 21, 262_139],
    ["default is cut at the top of its band", "default", 65_535, 65_535, 2 ** 20, 524_279],
    ["failed is cut at the top of its band", "failed", 65_535, 65_535, 2 ** 20, 786_419],
    ["free failed terminator", "failed", 0, 0, 0, 524_280],
  ] as const)("%s", (_name, precedence, staticCost, dynamicCost, pathCost, expected) => {
    expect(biasedCost({ precedence, staticCost, dynamicCost, pathCost })).toBe(expected);
  });
});

describe("dynamic cost", () => {
  test("counts circuits and failures", () => {
    const costs = new DynamicCosts();
    costs.dialFailed("t", 0);
    expect(costs.of("t")).toBe(20);
    costs.circuitOpened("t");
    expect(costs.of("t")).toBe(2 + 18);
    costs.circuitClosed("t");
    expect(costs.of("t")).toBe(18);
    costs.circuitClosed("t");
    expect(costs.of("t")).toBe(18);
    expect(costs.of("other")).toBe(0);
  });

  test("forgives faster the longer nothing failed", () => {
    const costs = new DynamicCosts();
    for (let i = 0; i < 10; i++) costs.dialFailed("t", 0);
    expect(costs.of("t")).toBe(200);
    costs.credit(60_000);
    expect(costs.of("t")).toBe(190);
    costs.credit(4 * 300_000);
    expect(costs.of("t")).toBe(190 - 16);
    costs.credit(20 * 300_000);
    expect(costs.of("t")).toBe(0);
  });

  test("stays within sixteen bits", () => {
    const costs = new DynamicCosts();
    for (let i = 0; i < 4000; i++) costs.dialFailed("t", 0);
    for (let i = 0; i < 40_000; i++) costs.circuitOpened("t");
    expect(costs.of("t")).toBe(65_535);
  });
});
