import { expect, test } from "vitest";
import { TimeShare } from "./time-share.ts";

function share() {
  const pauses: number[] = [];
  return { pauses, share: new TimeShare((ms) => pauses.push(ms)) };
}

test("a sender may take its share for ever, and once much more", () => {
  const { pauses, share: time } = share();
  time.spent(1_900, 2_000);
  for (let now = 3_000; now < 100_000; now += 1_000) time.spent(240, now);
  expect(pauses).toEqual([]);
});

test("one that goes on taking more is paused until the debt is gone, for five seconds at most", () => {
  const { pauses, share: time } = share();
  time.spent(2_000, 10_000);
  time.spent(300, 10_400);
  expect(pauses).toEqual([800]);
  // As long as it was told to wait: what is left is the allowance.
  time.spent(10, 11_200);
  expect(pauses).toEqual([800, 40]);
  time.spent(60_000, 71_240);
  expect(pauses.at(-1)).toBe(5_000);
});
