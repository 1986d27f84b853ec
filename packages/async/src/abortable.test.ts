import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { abortable, untilAborted } from "./abortable.ts";

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
