import { expect, test } from "vitest";
import { LONGEST_TIMER_MS, pause } from "./pause.ts";

test("a pause that is longer than timers know ends with its signal, not at once", async () => {
  const stop = new AbortController();
  const told: string[] = [];
  const waiting = pause(4 * LONGEST_TIMER_MS, stop.signal).then(() => told.push("waited"));
  await pause(50, new AbortController().signal);
  told.push("stopped");
  stop.abort();
  await waiting;
  expect(told).toEqual(["stopped", "waited"]);
});
