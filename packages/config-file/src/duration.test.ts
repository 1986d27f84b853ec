import { expect, it } from "vitest";
import { formatDuration, parseDuration } from "./duration.ts";

it.each([
  ["30m", 1_800_000],
  ["1h30m", 5_400_000],
  ["500ms", 500],
  ["1.5h", 5_400_000],
  [".5s", 500],
  ["5m0s", 300_000],
  ["-1m", -60_000],
  ["250us", 0.25],
  ["0s", 0],
  ["0", 0],
])("%s is %d ms", (text, milliseconds) => expect(parseDuration(text)).toBe(milliseconds));

it.each(["", "5", "m", "1 week", "1m2", "365d", "1h 30m", "+", "."])("%j is no duration", (text) =>
  expect(parseDuration(text)).toBeUndefined(),
);

it("days count where they are allowed", () => {
  expect(parseDuration("365d", { days: true })).toBe(31_536_000_000);
});

it("durations are written as short as they can be read again", () => {
  expect([90_000, 1_500, 250, 0, 86_400_000, -60_000].map(formatDuration)).toEqual([
    ...["1m30s", "1.5s", "250ms", "0s", "24h", "-1m"],
  ]);
});
