import { expect, test } from "vitest";
import { Meter, Meters } from "./meter.ts";

test("a meter starts with the first rate it sees, and lets the past fade", () => {
  const meter = new Meter(0);
  expect(meter.snapshot()).toEqual({ count: 0, m1Rate: 0, m5Rate: 0, m15Rate: 0, meanRate: 0 });
  meter.tick(50, 5_000);
  expect(meter.snapshot()).toEqual({ count: 50, m1Rate: 10, m5Rate: 10, m15Rate: 10, meanRate: 10 });
  for (let at = 10_000; at <= 65_000; at += 5_000) meter.tick(50, at);
  const { m1Rate, m5Rate, m15Rate, meanRate } = meter.snapshot();
  expect(m1Rate).toBeCloseTo(10 / Math.E);
  expect(m5Rate).toBeCloseTo(10 * Math.exp(-1 / 5));
  expect(m15Rate).toBeCloseTo(10 * Math.exp(-1 / 15));
  expect(meanRate).toBeCloseTo(50 / 65);
});

test("a counter that started again does not make a meter fall", () => {
  const meter = new Meter(0);
  meter.tick(50, 5_000);
  meter.tick(20, 10_000);
  expect(meter.snapshot().count).toBe(70);
});

test("meters come and go with the names of their counters", () => {
  let totals: [string, number][] = [["a", 1]];
  const meters = new Meters(() => totals);
  expect([...meters.all()].map(([name]) => name)).toEqual(["a"]);
  totals = [
    ["a", 4],
    ["b", 2],
  ];
  meters.tick(Date.now());
  expect(meters.get("a")?.snapshot().count).toBe(4);
  expect(meters.get("b")?.snapshot().count).toBe(2);
  totals = [["b", 3]];
  meters.tick(Date.now());
  expect(meters.get("a")).toBeUndefined();
  meters.close();
});
