import { expect, it } from "vitest";
import { type DevicePosture, lastReportAt, mergedPosture, saysTheSame } from "./index.ts";

const domain = (text: string, at: number) => ({ domain: { at, checkId: "d", domain: text } });
const os = (version: string, at: number) =>
  ({ os: { at, checkId: "o", type: "linux", version, build: "" } }) as never as DevicePosture;
const process = (path: string, at: number, isRunning = true) => ({
  ...{ at, checkId: "p", path, isRunning, hash: "", signerFingerprints: [] },
});

it("of each kind the newer report counts, and of one moment the own one", () => {
  const merged = mergedPosture(
    {
      ...os("6.9.0", 5),
      ...domain("old", 1),
      processes: [process("/a", 9, false), process("/b", 2), process("/c", 4, false)],
    },
    { ...domain("new", 3), processes: [process("/a", 8), process("/c", 4), process("/d", 1)] },
  );
  expect(merged).toEqual({
    ...os("6.9.0", 5),
    ...domain("new", 3),
    processes: [process("/d", 1), process("/b", 2), process("/c", 4), process("/a", 9, false)],
  });
  expect(lastReportAt(merged)).toBe(9);
  expect(lastReportAt({ processes: [] })).toBe(0);
});

it("the same said later is the same, whatever the order of kinds; anything else is not", () => {
  const one = { ...os("6.9.0", 1), ...domain("d", 1), processes: [process("/a", 1)] };
  expect(saysTheSame(one, { ...domain("d", 2), ...os("6.9.0", 9), processes: [process("/a", 7)] })).toBe(true);
  expect(saysTheSame(one, { ...one, processes: [process("/a", 1, false)] })).toBe(false);
  expect(saysTheSame(one, { ...one, processes: [] })).toBe(false);
  expect(saysTheSame(one, { ...domain("d", 1), processes: [process("/a", 1)] })).toBe(false);
});
