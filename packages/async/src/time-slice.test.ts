import { expect, it } from "vitest";
import { TimeSlice } from "./time-slice.ts";

it("a slice of time is over after a while, and begins anew after other work went on", async () => {
  const slice = new TimeSlice();
  expect(slice.isOver).toBe(false);
  let others = 0;
  setImmediate(() => void others++);
  while (!slice.isDue);
  expect([slice.isOver, others]).toEqual([true, 0]);
  await slice.pause();
  expect([slice.isOver, others]).toEqual([false, 1]);
});
