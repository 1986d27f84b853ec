import { describe, expect, it } from "vitest";
import { AdaptiveWindow, type WindowOutcome, type WindowSettings } from "./adaptive-window.ts";

const settings: WindowSettings = {
  enabled: true,
  minSize: 5,
  maxSize: 20,
  successThreshold: 0.9,
  increaseFactor: 1.02,
  decreaseFactor: 0.5,
  increaseCheckInterval: 10,
  decreaseCheckInterval: 3,
};

async function report(window: AdaptiveWindow, outcome: WindowOutcome, times: number): Promise<void> {
  for (let i = 0; i < times; i++) (await window.enter())(outcome);
}

describe("the window of requests to controllers", () => {
  it("shrinks while they are busy or silent, to its minimum, and grows back to its maximum", async () => {
    const window = new AdaptiveWindow(settings);
    expect(window.size).toBe(20);
    await report(window, "busy", 2);
    expect(window.size).toBe(20);
    await report(window, "lost", 1);
    expect(window.size).toBe(10);
    await report(window, "busy", 30);
    expect(window.size).toBe(5);
    await report(window, "success", 10);
    expect(window.size).toBe(6);
    await report(window, "success", 1_000);
    expect(window.size).toBe(20);
  });

  it("tells how long each request took from when it was let in, once", async () => {
    const window = new AdaptiveWindow({ ...settings, minSize: 1, maxSize: 1 });
    const took: number[] = [];
    window.onAnswered = (ms) => took.push(ms);
    const [first, second] = [window.enter(), window.enter()];
    (await first)("success");
    const leave = await second;
    leave("busy");
    leave("busy");
    expect(took).toEqual([expect.any(Number), expect.any(Number)]);
    expect(window.inFlight).toBe(0);
  });

  it("does not grow below the threshold of successes", async () => {
    const window = new AdaptiveWindow(settings);
    await report(window, "busy", 3);
    await report(window, "busy", 2);
    await report(window, "success", 17);
    expect(window.size).toBe(10);
    await report(window, "success", 1);
    expect(window.size).toBe(11);
  });

  it("lets as many in as it is large, the others in order when places come free, and all at the end", async () => {
    const window = new AdaptiveWindow({ ...settings, minSize: 1, maxSize: 2 });
    const order: number[] = [];
    const leave: ((outcome: WindowOutcome) => void)[] = [];
    const all = [0, 1, 2, 3, 4].map(async (i) => {
      leave[i] = await window.enter();
      order.push(i);
    });
    await Promise.resolve();
    await Promise.all(all.slice(0, 2));
    expect([order, window.inFlight, window.waiting]).toEqual([[0, 1], 2, 3]);
    leave[1]?.("success");
    leave[1]?.("success");
    await all[2];
    expect([order, window.waiting]).toEqual([[0, 1, 2], 2]);
    window.close();
    await Promise.all(all);
    expect(order).toEqual([0, 1, 2, 3, 4]);
  });

  it("has no bound when it is off", async () => {
    const window = new AdaptiveWindow({ ...settings, enabled: false });
    await report(window, "lost", 100);
    expect(window.size).toBe(Number.POSITIVE_INFINITY);
  });
});
