import { afterEach, describe, expect, test, vi } from "vitest";
import { Backoff, backoffDelay, jittered } from "./backoff.ts";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const chance = (value: number) => vi.spyOn(Math, "random").mockReturnValue(value);
const times = (count: number, backoff: Backoff) => Array.from({ length: count }, () => backoff.next());

test.each([
  [1, 100],
  [2, 200],
  [5, 1_000],
  [5_000, 1_000],
])("after %i failures the delay is %i ms", (failures, delay) => {
  expect(backoffDelay(failures, { firstMs: 100, maxMs: 1_000 })).toBe(delay);
});

test("jitter makes a delay shorter or longer, after the limit, in whole milliseconds", () => {
  chance(0);
  expect([jittered(1_001, [0.75, 1.25]), jittered(1_001)]).toEqual([751, 1_001]);
  chance(0.999_999);
  expect(jittered(1_000, [1, 2])).toBe(2_000);
  expect(backoffDelay(9, { firstMs: 100, maxMs: 1_000, jitter: [0.75, 1.25] })).toBe(1_250);
});

describe("a back-off", () => {
  test("doubles up to its limit, and begins again after a success", () => {
    const backoff = new Backoff({ firstMs: 100, maxMs: 350 });
    expect(times(4, backoff)).toEqual([100, 200, 350, 350]);
    expect(backoff.failures).toBe(4);
    backoff.reset();
    expect([backoff.failures, backoff.next()]).toEqual([0, 100]);
  });

  test("takes another limit for one delay", () => {
    const backoff = new Backoff({ firstMs: 100, maxMs: 1_000 });
    expect(times(3, backoff)).toEqual([100, 200, 400]);
    expect([backoff.next(300), backoff.next()]).toEqual([300, 1_000]);
  });

  test("begins again when nothing has failed for a while after a delay", () => {
    vi.useFakeTimers();
    const backoff = new Backoff({ firstMs: 100, maxMs: 1_000, healthyMs: 5_000 });
    expect(times(2, backoff)).toEqual([100, 200]);
    vi.advanceTimersByTime(5_400);
    expect(backoff.next()).toBe(400);
    vi.advanceTimersByTime(5_801);
    expect(backoff.next()).toBe(100);
  });
});
