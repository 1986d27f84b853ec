import { afterEach, describe, expect, it, vi } from "vitest";
import { DialState } from "./dial-state.ts";

const healthy = { minRetryInterval: 5000, maxRetryInterval: 300_000, retryBackoffFactor: 1.5 };
const unhealthy = { minRetryInterval: 60_000, maxRetryInterval: 3_600_000, retryBackoffFactor: 10 };
const listener = { address: "tls:localhost:1", protocol: "tls", groups: ["default"], localBinding: "" };
const wish = () => new DialState({ key: "k", peerId: "beta", dialerIndex: 0, listener, now: 0 });

afterEach(() => vi.useRealTimers());

describe("the wish for a link", () => {
  it("is dialled at once, keeps its id, and counts its attempts from 1", () => {
    const state = wish();
    expect([state.status, state.isDue(0), state.iteration]).toEqual(["pending", true, 0]);
    const id = state.linkId;
    state.dialing();
    expect([state.status, state.isDue(1e9), state.iteration]).toEqual(["dialing", false, 1]);
    state.failed("dialFailed", healthy, 0, 0.5);
    state.dialing();
    expect([state.iteration, state.linkId]).toEqual([2, id]);
    expect(id).toMatch(/^[0-9A-Za-z]{21,22}$/);
  });

  it.each([
    ["healthy", healthy, [5000, 7500, 11_250]],
    ["unhealthy", unhealthy, [60_000, 600_000, 3_600_000]],
  ] as const)("waits by the %s policy from failure to failure", (_name, backoff, waits) => {
    const state = wish();
    let now = 0;
    for (const wait of waits) {
      state.dialing();
      state.failed("dialFailed", backoff, now, 0.5);
      expect(state.retryDelay).toBe(wait);
      expect([state.isDue(now + wait - 1), state.isDue(now + wait)]).toEqual([false, true]);
      now += wait;
    }
  });

  it("a full queue counts like a failed dial", () => {
    const state = wish();
    state.dialing();
    state.failed("queueFailed", healthy, 0, 0.5);
    expect([state.status, state.nextDial]).toEqual(["queueFailed", 5000]);
  });

  it("a link that lived is dialled again at once, one that was refused as soon as it was made after the minimum", () => {
    const state = wish();
    state.dialing();
    state.established(0);
    expect(state.isDue(1e9)).toBe(false);
    state.linkFailed(10_000, healthy);
    expect([state.status, state.isDue(10_000)]).toEqual(["linkFailed", true]);
    state.dialing();
    state.established(20_000);
    state.linkFailed(20_100, healthy);
    expect([state.isDue(20_100), state.isDue(25_100)]).toEqual([false, true]);
    expect(state.connectedCount).toBe(2);
  });

  it("a success makes the next failure a first one", () => {
    const state = wish();
    for (let i = 0; i < 5; i++) {
      state.dialing();
      state.failed("dialFailed", healthy, 0, 0.5);
    }
    state.dialing();
    state.established(0);
    state.linkFailed(1e6, healthy);
    state.dialing();
    state.failed("dialFailed", healthy, 1e6, 0.5);
    expect(state.retryDelay).toBe(5000);
  });

  it("a peer that is back is dialled at once, and one that was removed never", () => {
    const state = wish();
    state.dialing();
    state.failed("dialFailed", unhealthy, 0, 0.5);
    state.hurry(100);
    expect([state.isDue(100), state.retryDelay]).toEqual([true, 0]);
    state.status = "destRemoved";
    state.established(200);
    state.failed("dialFailed", healthy, 200, 0.5);
    expect([state.status, state.isDue(1e12)]).toEqual(["destRemoved", false]);
  });
});
