import { describe, expect, it } from "vitest";
import { Bitset } from "./bitset.ts";

const of = (...bits: number[]): Bitset => {
  const set = new Bitset();
  for (const bit of bits) set.set(bit, true);
  return set;
};

describe("a set of bits", () => {
  it("has what was put in, in order, and grows", () => {
    const set = of(70, 0, 31, 32);
    set.set(31, false);
    set.set(1_000, false);
    expect([...set]).toEqual([0, 32, 70]);
    expect(set.size).toBe(3);
    expect([0, 31, 70, 1_000].map((bit) => set.has(bit))).toEqual([true, false, true, false]);
  });

  it("joins, meets and differs", () => {
    const set = of(1, 2);
    set.add(of(2, 90));
    expect([...set]).toEqual([1, 2, 90]);
    expect([...set.without(of(2))]).toEqual([1, 90]);
    const copy = set.copy();
    set.keep(of(90));
    expect([[...set], [...copy]]).toEqual([[90], [1, 2, 90]]);
  });
});
