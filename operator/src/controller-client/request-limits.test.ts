import { expect, test } from "vitest";
import { RequestPace } from "./request-limits.ts";

const { signal } = new AbortController();

test("after a silence a second's worth goes out at once, and the rest at the rate", async () => {
  const pace = new RequestPace(100);
  const startedAt = performance.now();
  const turns = Array.from({ length: 120 }, () => pace.turn(signal).then(() => performance.now() - startedAt));
  const at = await Promise.all(turns);
  // Timers are never early by more than their own grain.
  expect(at[119]).toBeGreaterThanOrEqual(195);
  expect(at[109]).toBeGreaterThanOrEqual(95);
  expect(at[99]).toBeLessThan(at[119] ?? 0);
});

test("a pause holds everything, also what waits already, and the longer one counts", async () => {
  const pace = new RequestPace(1_000);
  pace.pause(60);
  const startedAt = performance.now();
  const turn = pace.turn(signal);
  pace.pause(120);
  pace.pause(10);
  expect(pace.pausedMs).toBeGreaterThan(60);
  await turn;
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(115);
  expect(pace.pausedMs).toBe(0);
});

test("a wait ends with its signal", async () => {
  const pace = new RequestPace(1);
  pace.pause(3_600_000);
  const ended = new AbortController();
  const turn = pace.turn(ended.signal);
  const why = new Error("enough");
  ended.abort(why);
  await expect(turn).rejects.toBe(why);
  await expect(pace.turn(ended.signal)).rejects.toBe(why);
});
