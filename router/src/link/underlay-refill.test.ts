import { type Channel, silentLogger } from "@sallyport/wire";
import { afterEach, describe, expect, it, vi } from "vitest";
import { type RefillableLink, refillPause, UnderlayRefill } from "./underlay-refill.ts";

const target = { maxDefaultConnections: 3, maxAckConnections: 1, startupDelay: 3000, connectTimeoutMs: 0 };
const stop = new AbortController();
afterEach(() => vi.restoreAllMocks());

/** A link whose dials succeed as the script says; pauses are told and take no time. */
function scripted(outcomes: boolean[], have: string[] = ["link.default"]) {
  const log: (string | number)[] = [];
  const link: RefillableLink & { isClosed: boolean } = {
    id: "l",
    isClosed: false,
    channel: {} as Channel,
    count: (type) => have.filter((each) => each === type).length,
  };
  const refill = new UnderlayRefill({
    signal: stop.signal,
    log: silentLogger,
    dial: async (_channel, { type, timeoutMs }) => {
      expect(timeoutMs).toBe(15_000);
      log.push(type);
      if (outcomes.shift() === false) throw new Error("refused");
      have.push(type);
    },
    pause: async (ms) => {
      log.push(ms);
      if (log.length > 60) link.isClosed = true;
    },
  });
  const settled = async (): Promise<void> => {
    for (let i = 0; i < 1000; i++) await Promise.resolve();
  };
  return { link, have, log, refill, settled };
}

describe("the further connections of a link", () => {
  it("come after the startup delay, the default type first, until there are as many as wanted", async () => {
    const { link, log, refill, settled } = scripted([]);
    refill.look(link, target);
    refill.look(link, target);
    await settled();
    expect(log).toEqual([3000, "link.default", "link.default", "link.ack"]);
    refill.look(link, target);
    await settled();
    expect(log).toHaveLength(4);
  });

  it("are dialled again after a loss, without that delay", async () => {
    const { link, have, log, refill, settled } = scripted([]);
    refill.look(link, target);
    await settled();
    have.splice(have.indexOf("link.ack"), 1);
    refill.look(link, target);
    await settled();
    expect(log.slice(4)).toEqual(["link.ack"]);
  });

  it("wait 2 s more after each failure in a row, at most a minute, and are tried without end", async () => {
    const { link, log, refill, settled } = scripted(Array.from({ length: 100 }, () => false));
    refill.look(link, target);
    await settled();
    const pauses = log.filter((entry) => typeof entry === "number").slice(1);
    expect(pauses.slice(0, 3)).toEqual([2000, 4000, 6000]);
    expect(pauses.at(-1)).toBe(60_000);
    expect([1, 2, 30, 31, 1000].map(refillPause)).toEqual([2000, 4000, 60_000, 60_000, 60_000]);
  });

  it("wait as after the first failure when one has succeeded in between", async () => {
    const { link, log, refill, settled } = scripted([false, false, true, false, true, true]);
    refill.look(link, target);
    await settled();
    expect(log.filter((entry) => typeof entry === "number")).toEqual([3000, 2000, 4000, 2000]);
  });

  it("no acknowledgement connections when none are wanted", async () => {
    const { link, log, refill, settled } = scripted([]);
    refill.look(link, { ...target, maxDefaultConnections: 1, maxAckConnections: 0 });
    await settled();
    expect(log).toEqual([]);
  });

  it("are not dialled for a link that has closed", async () => {
    const { link, log, refill, settled } = scripted([false]);
    refill.look(link, target);
    link.isClosed = true;
    await settled();
    expect(log).toEqual([3000]);
  });
});
