import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Backoff } from "./backoff.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("the wait after a failure", () => {
  test("is 800 ms and doubles to 30 s, up to twice as long by chance", () => {
    for (const chance of [0, 0.999]) {
      vi.spyOn(Math, "random").mockReturnValue(chance);
      const backoff = new Backoff();
      const waits = Array.from({ length: 8 }, () => Math.round(backoff.next() / (1 + chance)));
      expect(waits).toEqual([800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    }
  });

  test("starts again after two healthy minutes, not sooner", () => {
    vi.spyOn(Math, "random").mockReturnValue(0);
    const backoff = new Backoff();
    for (let i = 0; i < 3; i += 1) backoff.next();
    vi.advanceTimersByTime(100_000);
    expect(backoff.next()).toBe(6400);
    vi.advanceTimersByTime(140_000);
    expect(backoff.next()).toBe(800);
  });

  test("is at least what the server asks", () => {
    expect(new Backoff().next(90_000)).toBe(90_000);
  });
});
