import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LostRouters } from "./lost-routers.ts";
import type { RouterAddress } from "./router-address.ts";

const eu: RouterAddress = { name: "eu", address: "tls:eu.example:3022" };
const us: RouterAddress = { name: "us", address: "tls:us.example:3022" };
const minute = 60_000;

let isThere: boolean;
/** When each router was tried, in seconds. */
let tried: { name: string; at: number }[];
let searches: number;
let routers: LostRouters;

beforeEach(() => {
  vi.useFakeTimers();
  // The longest that chance makes of each pause.
  vi.spyOn(Math, "random").mockReturnValue(1);
  isThere = false;
  tried = [];
  searches = 0;
  const began = performance.now();
  routers = new LostRouters({
    connect: async ({ name }) => {
      tried.push({ name, at: (performance.now() - began) / 1_000 });
      if (!isThere) throw new Error("connection refused");
    },
    onMissing: () => searches++,
  });
});

afterEach(() => {
  routers.close();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe("a router that was lost", () => {
  it("is tried again every other second while it may be restarting, and ever more seldom", async () => {
    routers.lost(eu);
    await vi.advanceTimersByTimeAsync(5 * minute);
    const gaps = tried.map(({ at }, n) => at - (tried[n - 1]?.at ?? 0));
    expect(tried[0]?.at).toBeLessThanOrEqual(1.25);
    expect(Math.max(...gaps.filter((_, n) => (tried[n]?.at ?? 0) < 15))).toBeLessThanOrEqual(2);
    expect(tried.length).toBeLessThan(60);
    expect(gaps.at(-1)).toBeGreaterThan(10);
  });

  it("is given up after five minutes", async () => {
    routers.lost(eu);
    await vi.advanceTimersByTimeAsync(6 * minute);
    const times = tried.length;
    await vi.advanceTimersByTimeAsync(60 * minute);
    expect(tried.length).toBe(times);
  });

  it("is left alone once it is connected, and tried again when it is not up to it yet", async () => {
    routers.lost(eu);
    isThere = true;
    await vi.advanceTimersByTimeAsync(2_000);
    routers.connected(eu);
    await vi.advanceTimersByTimeAsync(minute);
    expect(tried).toHaveLength(1);
    routers.refused(eu);
    await vi.advanceTimersByTimeAsync(minute);
    expect(tried).toHaveLength(2);
  });

  it("is searched for as long as it is missing, but not at every try", async () => {
    routers.lost(eu);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(searches).toBeGreaterThan(2);
    expect(searches).toBeLessThanOrEqual(7);
  });

  it("is not tried any more where it was, once it is known to be elsewhere", async () => {
    routers.lost(eu);
    routers.lost(us);
    routers.located([{ ...eu, address: "tls:eu.example:443" }]);
    await vi.advanceTimersByTimeAsync(minute);
    expect(new Set(tried.map(({ name }) => name))).toEqual(new Set(["us"]));
  });
});

it("does not try a router that refuses and was never of use", async () => {
  expect(routers.refused(eu)).toBe(false);
  await vi.advanceTimersByTimeAsync(minute);
  expect(tried).toEqual([]);
});

it("knows for half a minute that routers come and go", async () => {
  expect(routers.isInMotion).toBe(false);
  routers.lost(eu);
  await vi.advanceTimersByTimeAsync(29_000);
  expect(routers.isInMotion).toBe(true);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(routers.isInMotion).toBe(false);
  // What went with it comes back after it.
  routers.connected(eu);
  expect(routers.isInMotion).toBe(true);
});
