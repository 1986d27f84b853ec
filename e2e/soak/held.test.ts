import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { growth, hasFallen, heldHere } from "./held.ts";

describe("what a process holds", () => {
  it("counts timers and sockets that are kept, also those that keep nothing alive, and not those that are gone", () => {
    const before = heldHere();
    const kept = Array.from({ length: 40 }, () => ({
      timer: setTimeout(() => {}, 60_000).unref(),
      socket: new Socket(),
    }));
    for (let i = 0; i < 50; i++) clearTimeout(setTimeout(() => {}, 60_000));
    const after = heldHere();
    expect(after.timers - before.timers).toBeGreaterThanOrEqual(40);
    expect(after.timers - before.timers).toBeLessThan(60);
    expect(after.sockets - before.sockets).toBe(40);
    expect(growth(before, after).join()).toMatch(/timers.*sockets/);
    for (const { timer } of kept.splice(0)) clearTimeout(timer);
    const end = heldHere();
    expect(growth(before, end)).toEqual([]);
    expect(hasFallen(after, end)).toBe(true);
  });

  it("sees memory that is kept, on the heap and beside it", () => {
    const before = heldHere();
    const numbers = Array.from({ length: 16_000_000 }, (_, i) => i + 0.5);
    const bytes = Buffer.alloc(64 * 1024 * 1024, 1);
    expect(growth(before, heldHere()).join()).toMatch(/heapUsed.*external/);
    expect(numbers.length + bytes.length).toBeGreaterThan(0);
  });
});
