import { expect, test } from "vitest";
import { Refusals } from "./refusals.ts";

test("a refusal counts once it has lasted a moment, and anew when it was over", () => {
  const refusals = new Refusals();
  expect(refusals.leftMs("edge/a", 0)).toBe(3_000);
  expect(refusals.leftMs("edge/a", 1_000)).toBe(2_000);
  expect(refusals.leftMs("edge/b", 1_000)).toBe(3_000);
  expect(refusals.leftMs("edge/a", 3_500)).toBeLessThan(0);
  refusals.forget("edge/a");
  expect(refusals.leftMs("edge/a", 4_000)).toBe(3_000);
  // One that nobody saw the end of.
  expect(refusals.leftMs("edge/a", 1_000_000)).toBe(3_000);
  // The same one: failures wait for five minutes and more.
  expect(refusals.leftMs("edge/a", 1_400_000)).toBeLessThan(0);
});
