import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { boundedLog, shownText } from "./log.ts";
import { RecordingLogger } from "./testing/recording-logger.ts";

test("a claim is shown with at most 100 characters, none of them halved", () => {
  expect(shownText("x".repeat(100))).toBe("x".repeat(100));
  expect(shownText("x".repeat(101))).toBe(`${"x".repeat(99)}…`);
  expect(shownText("x".repeat(1_000_000))).toHaveLength(100);
  expect(shownText(`${"x".repeat(98)}😀😀`)).toBe(`${"x".repeat(98)}…`);
  expect(shownText("abcdef", 4)).toBe("abc…");
});

let written: RecordingLogger;

beforeEach(() => {
  vi.useFakeTimers();
  written = new RecordingLogger();
});

afterEach(() => {
  vi.useRealTimers();
});

/** The lines since the last look, without those for debugging. */
function lines(): string[] {
  const entries = written.entries.splice(0).filter(({ level }) => level !== "debug");
  return entries.map(({ level, fields, msg }) => `${level} ${msg} ${JSON.stringify(fields)}`);
}

test("of lines with the same reason the first few of a minute are written, then one with the count of the others", () => {
  const log = boundedLog(written, { perReason: 2, perMessage: 10 });
  for (let i = 0; i < 1_000; i++) log.info({ peer: `192.0.2.1:${i}`, reason: "no certificate" }, "refused");
  expect(lines()).toEqual([
    'info refused {"peer":"192.0.2.1:0","reason":"no certificate"}',
    'info refused {"peer":"192.0.2.1:1","reason":"no certificate"}',
  ]);
  vi.advanceTimersByTime(60_000);
  expect(lines()).toEqual(['info more lines of the kind were left out {"line":"refused","leftOut":998,"seconds":60}']);
  log.info({ reason: "no certificate" }, "refused");
  expect(lines()).toHaveLength(1);
  vi.advanceTimersByTime(120_000);
  expect(lines()).toEqual([]);
});

test("a frequent reason hides no other one, and reasons that a client invents have a bound of their own", () => {
  const log = boundedLog(written, { perReason: 2, perMessage: 10 });
  for (let i = 0; i < 100; i++) log.warn({ code: "OFTEN" }, "refused");
  log.warn({ err: new Error("seldom") }, "refused");
  for (let i = 0; i < 100; i++) log.warn({ reason: `made up ${i}` }, "refused");
  expect(lines()).toHaveLength(10);
  log.error({}, "something else");
  expect(lines()).toHaveLength(1);
  vi.advanceTimersByTime(60_000);
  expect(lines()).toEqual(['warn more lines of the kind were left out {"line":"refused","leftOut":191,"seconds":60}']);
});

test("long texts are cut, whatever they came by", () => {
  const log = boundedLog(written);
  const long = "x".repeat(10_000);
  log.info({ client: long, err: new Error(long), code: "C" }, "refused");
  log.debug({ client: long }, "detail");
  for (const { fields } of written.entries) expect(JSON.stringify(fields).length).toBeLessThan(1_200);
  expect(written.entries[0]?.fields).toMatchObject({ code: "C", err: { message: expect.stringMatching(/^x{499}…$/) } });
});

test("lines for debugging all pass, and to bound a log twice changes nothing", () => {
  const log = boundedLog(written);
  for (let i = 0; i < 100; i++) log.debug({}, "detail");
  for (let i = 0; i < 100; i++) log.info({ reason: "the same" }, "left out in part");
  expect(written.entries).toHaveLength(200);
  expect(boundedLog(log)).toBe(log);
});
