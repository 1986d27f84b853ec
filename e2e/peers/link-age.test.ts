import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTcp } from "../network/bytes.ts";
import { type MixedNetwork, startMixedNetwork } from "./mixed-network.ts";
import { peer } from "./peer.ts";

/** The first answer on each half of a split link may take OpenZiti's router three times its limit, which is 30 s here. */
const PATIENCE_MS = 3 * 30_000;
const BEAT_MS = 1_000;
const ANSWER_MS = 20_000;

describe.skipIf(peer.isMissing)("a split link to OpenZiti's router", () => {
  let network: MixedNetwork;
  beforeAll(async () => {
    // Any such section makes its limit 30 s instead of 60.
    const sooner = (text: string): string => text.replace(/^link:\n/m, "link:\n  heartbeats: {}\n");
    network = await startMixedNetwork("ours", "mine", undefined, sooner);
  });
  afterAll(() => network?.close());

  /** Between the two; the network had others when it was set up. */
  const links = async (): Promise<{ id: string; iteration: number }[]> => {
    const data = (await network.controller.cli.fabricListed("links")) as readonly {
      id: string;
      iteration: number;
      state: string;
      sourceRouter: { name: string };
    }[];
    return data
      .filter(({ state, sourceRouter }) => state === "Connected" && sourceRouter.name === "mine")
      .map(({ id, iteration }) => ({ id, iteration }));
  };

  it("is still the same, and so is a circuit over it, when that router has waited for answers as long as it does", async () => {
    const before = await links();
    expect(before).toHaveLength(1);
    const [service] = network.services;
    const socket = await openTcp(service.port);
    const broken = Promise.withResolvers<never>();
    broken.promise.catch(() => {});
    socket.once("close", () => broken.reject(new Error("the circuit was closed")));
    socket.on("error", broken.reject);
    // From here on it takes at least as long as the link is already older.
    const until = performance.now() + PATIENCE_MS + 5 * BEAT_MS;
    while (performance.now() < until) {
      const back = new Promise((resolve) => socket.once("data", resolve));
      socket.write("beat");
      const answer = await Promise.race([back, broken.promise, delay(ANSWER_MS, "none", { ref: false })]);
      expect(String(answer)).toBe("beat");
      await Promise.race([delay(BEAT_MS), broken.promise]);
    }
    expect(await links()).toEqual(before);
    socket.destroy();
  });
});
