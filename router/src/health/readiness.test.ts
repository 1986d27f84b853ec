import { expect, it } from "vitest";
import { Readiness } from "./readiness.ts";

const MINUTE = 60_000;

it("is reached with the first controller, kept while controllers are away for a while, and given up before the stop", () => {
  let now = 5;
  let connected: object[] = [];
  const listeners: (() => void)[] = [];
  const readiness = new Readiness({ all: () => connected, onConnected: (each) => listeners.push(each) }, () => now);
  expect(readiness.isReady).toBe(false);
  connected = [{}];
  for (const each of listeners) each();
  expect(readiness.isReady).toBe(true);
  now += 60 * MINUTE;
  expect(readiness.isReady).toBe(true);
  connected = [];
  now += 10 * MINUTE;
  expect(readiness.isReady).toBe(true);
  now += 1;
  expect(readiness.isReady).toBe(false);
  connected = [{}];
  for (const each of listeners) each();
  expect(readiness.isReady).toBe(true);
  readiness.leave();
  expect(readiness.isReady).toBe(false);
});
