import { getEventListeners } from "node:events";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Listeners } from "./listeners.ts";
import { abortable, MAX_TIMER_MS, nextCall, pause, pauseAwake, untilAborted } from "./waits.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** How a wait has ended so far. */
function watched(wait: Promise<void>): { ended: boolean } {
  const seen = { ended: false };
  void wait.then(() => {
    seen.ended = true;
  });
  return seen;
}

test("ends after its time, and leaves nothing at the signal", async () => {
  const { signal } = new AbortController();
  const seen = watched(pause(100, signal));
  await vi.advanceTimersByTimeAsync(99);
  expect(seen.ended).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(seen.ended).toBe(true);
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});

test("ends when the signal aborts, and leaves no timer", async () => {
  const stop = new AbortController();
  const seen = watched(pause(100, stop.signal));
  stop.abort();
  await vi.advanceTimersByTimeAsync(0);
  expect(seen.ended).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
  await pause(100, stop.signal);
});

test("a delay beyond the longest timer is that long, and does not end at once", async () => {
  const seen = watched(pause(4 * MAX_TIMER_MS));
  await vi.advanceTimersByTimeAsync(MAX_TIMER_MS - 1);
  expect(seen.ended).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(seen.ended).toBe(true);
});

test("with `ref: false` the timer does not keep the process", () => {
  const timers: NodeJS.Timeout[] = [];
  const set = globalThis.setTimeout;
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((...args: Parameters<typeof set>) => {
    const timer = set(...args);
    timers.push(timer);
    return timer;
  }) as typeof set);
  void pause(100, undefined, { ref: false });
  void pause(100);
  expect(timers.map((timer) => timer.hasRef())).toEqual([false, true]);
});

test("a wait while awake does not count the time in which the process stood still", async () => {
  vi.useRealTimers();
  let turns = 0;
  const wait = pauseAwake(80).then(() => turns);
  const stopped = performance.now();
  while (performance.now() - stopped < 400) Math.random();
  const count = setInterval(() => turns++, 5);
  expect(await wait).toBeGreaterThan(2);
  clearInterval(count);
  const stop = new AbortController();
  const long = pauseAwake(60_000, stop.signal);
  stop.abort();
  await long;
});

test("gives the promise's outcome, and leaves nothing at the signal", async () => {
  const { signal } = new AbortController();
  expect(await abortable(Promise.resolve(7), signal)).toBe(7);
  await expect(abortable(Promise.reject(new Error("refused")), signal)).rejects.toThrow("refused");
  expect(await abortable(Promise.resolve(7), undefined)).toBe(7);
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});

test("rejects with the signal's reason, and a later rejection of the promise is handled", async () => {
  const stop = new AbortController();
  const work = Promise.withResolvers<never>();
  const waiting = abortable(work.promise, stop.signal);
  stop.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
  work.reject(new Error("late"));
  await expect(abortable(Promise.resolve(7), stop.signal)).rejects.toThrow("stopped");
  await expect(abortable(Promise.reject(new Error("early")), stop.signal)).rejects.toThrow("stopped");
});

test("a wait for the signal ends when it aborts, at once when it has", async () => {
  const stop = new AbortController();
  const waiting = untilAborted(stop.signal);
  stop.abort();
  await waiting;
  await untilAborted(stop.signal);
});

test("waits for the next call of its listener, or for the time, and leaves neither listener nor timer", async () => {
  const listeners = new Listeners<[]>();
  const subscribe = (listener: () => void) => listeners.add(listener);
  const called = watched(nextCall(subscribe, 100));
  await vi.advanceTimersByTimeAsync(99);
  expect(called.ended).toBe(false);
  listeners.emit();
  await vi.advanceTimersByTimeAsync(0);
  expect(called.ended).toBe(true);
  const timed = watched(nextCall(subscribe, 100));
  await vi.advanceTimersByTimeAsync(100);
  expect(timed.ended).toBe(true);
  const stop = new AbortController();
  const stopped = nextCall(subscribe, 100, stop.signal);
  stop.abort(new Error("stopped"));
  await expect(stopped).rejects.toThrow("stopped");
  expect(listeners.size).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
  expect(getEventListeners(stop.signal, "abort")).toHaveLength(0);
});
