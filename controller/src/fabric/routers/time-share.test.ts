import { expect, test } from "vitest";
import { RememberedShares, TimeShare } from "./time-share.ts";

test("a sender may take its share without end, and once much more", () => {
  const time = new TimeShare();
  const pauses = [time.spent(1_900, 2_000)];
  for (let now = 3_000; now < 100_000; now += 1_000) pauses.push(time.spent(240, now));
  expect(new Set(pauses)).toEqual(new Set([0]));
});

test("one that goes on taking more is paused until the debt is gone, for five seconds at most", () => {
  const time = new TimeShare();
  expect(time.spent(2_000, 10_000)).toBe(0);
  expect(time.spent(300, 10_400)).toBe(800);
  // As long as it was told to wait: what is left is the allowance.
  expect(time.spent(10, 11_200)).toBe(40);
  expect(time.spent(60_000, 71_240)).toBe(5_000);
});

test("the debt of one that leaves is remembered until it is gone", () => {
  const shares = new RememberedShares();
  const left = (id: string, now: number) => {
    const share = shares.of(id);
    share.spent(2_000, now);
    shares.left(id, share, now);
    return share;
  };
  const share = left("evil", 1_000);
  expect(shares.of("evil")).toBe(share);
  expect(shares.of("other")).not.toBe(share);
  left("late", 9_000);
  expect(shares.size).toBe(1);
  expect(shares.of("evil")).not.toBe(share);
});

test("a thousand debts are remembered at most", () => {
  const shares = new RememberedShares();
  for (let i = 0; i < 1_100; i++) {
    const share = new TimeShare();
    share.spent(100, 1_000);
    shares.left(`r${i}`, share, 1_000);
  }
  expect(shares.size).toBe(1_000);
});
