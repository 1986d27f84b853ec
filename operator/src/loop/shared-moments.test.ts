import { expect, test } from "vitest";
import { atSharedMoment } from "./shared-moments.ts";

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
