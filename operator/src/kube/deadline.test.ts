import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Deadline } from "./deadline.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe("a deadline", () => {
  test("ends its signal after its time", () => {
    const deadline = new Deadline(100);
    vi.advanceTimersByTime(99);
    expect(deadline.signal.aborted).toBe(false);
    vi.advanceTimersByTime(1);
    expect(deadline.isOver).toBe(true);
    expect(deadline.signal.reason).toMatchObject({ name: "TimeoutError" });
  });

  test("ends with the other signal, for that one's reason", () => {
    const outer = new AbortController();
    const deadline = new Deadline(100, outer.signal);
    outer.abort("enough");
    vi.advanceTimersByTime(1000);
    expect(deadline.signal.reason).toBe("enough");
    expect(deadline.isOver).toBe(false);
    expect(new Deadline(100, outer.signal).signal.aborted).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });

  test("released, it leaves nothing behind", () => {
    const outer = new AbortController();
    const deadline = new Deadline(100, outer.signal);
    deadline.release();
    expect(vi.getTimerCount()).toBe(0);
    outer.abort();
    expect(deadline.signal.aborted).toBe(false);
  });
});
