import { expect, it, test } from "vitest";
import { CheckFailed, durationText, HealthCheck, type HealthCheckOptions, RouterHealth } from "./health.ts";

test.each([
  [0, "0s"],
  [0.4, "1ns"],
  [999, "999ns"],
  [4_500, "4.5µs"],
  [52_100, "52.1µs"],
  [1_234_567, "1.235ms"],
  [1.5e9, "1.5s"],
  [62.5e9, "1m2.5s"],
  [3_723e9, "1h2m3s"],
])("%d ns are written %s", (ns, text) => expect(durationText(ns)).toBe(text));

function check(o: Partial<HealthCheckOptions>): HealthCheck {
  const never = 1_000_000_000;
  return new HealthCheck({
    ...{ id: "c", look: () => undefined, initialDelayMs: never, intervalMs: never, timeoutMs: 5_000 },
    ...{ initiallyPassing: false, ...o },
  });
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

it("has not run yet, fails with details and causes, counts failures, and recovers", async () => {
  let failure: Error | undefined = new CheckFailed("slow", { details: [1], cause: new Error("no answer") });
  const one = check({
    look: () => {
      if (failure !== undefined) throw failure;
      return ["fine"];
    },
  });
  expect(one.result()).toEqual({
    ...{ id: "c", healthy: false, lastCheckDuration: "0s", consecutiveFailures: 1 },
    err: { message: "didn't run yet" },
    failingSince: expect.stringMatching(TIME),
    lastCheckTime: expect.stringMatching(TIME),
  });
  await one.look();
  expect(one.result()).toMatchObject({
    ...{ healthy: false, consecutiveFailures: 1, details: [1] },
    err: { message: "slow", cause: { message: "no answer" } },
  });
  const { failingSince } = one.result();
  await one.look();
  expect(one.result()).toMatchObject({ consecutiveFailures: 2, failingSince });
  failure = undefined;
  await one.look();
  expect(Object.keys(one.result()).sort()).toEqual(["details", "healthy", "id", "lastCheckDuration", "lastCheckTime"]);
  expect(one.result()).toMatchObject({ healthy: true, details: ["fine"] });
  one.stop();
});

it("fails when a look takes too long, and looks again afterwards", async () => {
  let looks = 0;
  const again = Promise.withResolvers<void>();
  const one = check({
    ...{ initialDelayMs: 1, intervalMs: 1, timeoutMs: 2_000, initiallyPassing: true },
    look: async () => {
      looks++;
      if (looks === 1) await new Promise(() => {});
      if (looks === 2) await again.promise;
      return null;
    },
  });
  expect(one.isHealthy).toBe(true);
  await expect.poll(() => one.result().err?.message, { timeout: 20_000 }).toBe("no result within 2000 ms");
  again.resolve();
  await expect.poll(() => one.isHealthy).toBe(true);
  one.stop();
});

it("writes the document with sorted keys, four spaces, and a newline; the short one has ids and states", async () => {
  const good = check({ id: "good", initiallyPassing: true });
  await good.look();
  const health = new RouterHealth([check({ id: "bad" }), good]);
  expect(health.isHealthy).toBe(false);
  expect(health.states()).toEqual([
    { id: "bad", healthy: false, hasRun: false, error: "didn't run yet" },
    { id: "good", healthy: true, hasRun: true, error: undefined },
  ]);
  const text = health.document(false);
  expect(text.endsWith("}\n")).toBe(true);
  expect(text).toContain(
    '\n    "data": {\n        "checks": [\n            {\n                "consecutiveFailures": 1,\n',
  );
  const keys = [...text.matchAll(/^ {16}"(\w+)"/gm)].map(([, key]) => key);
  expect(keys).toEqual([
    ...["consecutiveFailures", "err", "failingSince", "healthy", "id", "lastCheckDuration", "lastCheckTime"],
    ...["details", "healthy", "id", "lastCheckDuration", "lastCheckTime"],
  ]);
  expect(JSON.parse(text)).toMatchObject({
    data: { checks: [{ id: "bad" }, { details: null }], healthy: false },
    meta: {},
  });
  expect(JSON.parse(health.document(true))).toEqual({
    data: {
      checks: [
        { healthy: false, id: "bad" },
        { healthy: true, id: "good" },
      ],
      healthy: false,
    },
    meta: {},
  });
  health.stop();
});
