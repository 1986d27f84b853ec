import { expect, test } from "vitest";
import { atSharedMoment, Refusals } from "./delays.ts";

test("a refusal counts once it has lasted a moment, and again when it was over", () => {
  const refusals = new Refusals();
  expect(refusals.leftMs("edge/a", 0)).toBe(3_000);
  expect(refusals.leftMs("edge/a", 1_000)).toBe(2_000);
  expect(refusals.leftMs("edge/b", 1_000)).toBe(3_000);
  expect(refusals.leftMs("edge/a", 3_500)).toBeLessThan(0);
  refusals.forget("edge/a");
  expect(refusals.leftMs("edge/a", 4_000)).toBe(3_000);
  // One whose end was not seen.
  expect(refusals.leftMs("edge/a", 1_000_000)).toBe(3_000);
  // The same one: failures wait for five minutes and more.
  expect(refusals.leftMs("edge/a", 1_400_000)).toBeLessThan(0);
});

test.each([
  [undefined, 1_234, undefined],
  [{ requeueAfterMs: 1_000 }, 1_234, { requeueAfterMs: 1_000 }],
  [{ requeueAfterMs: 19_999 }, 1_234, { requeueAfterMs: 19_999 }],
  [{ requeueAfterMs: 20_000 }, 1_234, { requeueAfterMs: 23_766 }],
  [{ requeueAfterMs: 60_000 }, 0, { requeueAfterMs: 60_000 }],
  [{ requeueAfterMs: 60_001 }, 0, { requeueAfterMs: 65_000 }],
])("%o at %i is %o", (result, now, expected) => {
  expect(atSharedMoment(result, now)).toEqual(expected);
});

test("looks that are due within one moment come together", () => {
  const due = [1_000, 2_500, 4_999].map(
    (now) => now + (atSharedMoment({ requeueAfterMs: 60_000 }, now)?.requeueAfterMs ?? 0),
  );
  expect(new Set(due)).toEqual(new Set([65_000]));
});
