import { silentLogger } from "@sallyport/wire";
import { expect, it } from "vitest";
import { ClockWatch } from "./clock-watch.ts";

const DAY_MS = 86_400_000;

it("a clock that is wrong is told once, and again when it is wrong by something else, and when it is right", () => {
  const lines: string[] = [];
  const log = {
    ...silentLogger,
    warn: ({ seconds }: { seconds?: number }, message: string) => void lines.push(`${seconds}: ${message}`),
    info: (_: object, message: string) => void lines.push(message),
  };
  const clock = { aheadMs: 0 };
  const watch = new ClockWatch(clock, log);
  for (const aheadMs of [
    0,
    29_000,
    -29_000,
    DAY_MS,
    DAY_MS + 1_000,
    DAY_MS - 1_000,
    -DAY_MS,
    -DAY_MS,
    500,
    0,
    31_000,
  ]) {
    clock.aheadMs = aheadMs;
    watch.look();
  }
  const counts = "that of the database, which counts: set both by the same source";
  expect(lines).toEqual([
    `86400: the clock of this machine is ahead of ${counts}`,
    `86400: the clock of this machine is behind ${counts}`,
    "the clock of this machine agrees with that of the database again",
    `31: the clock of this machine is ahead of ${counts}`,
  ]);
});
