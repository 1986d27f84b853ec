import { describe, expect, test } from "vitest";
import { outlastFailover } from "./outlast-failover.ts";

const SEVERAL = { spec: { managed: { replicas: 3 } }, status: {} };
const LISTED = { spec: { external: {} }, status: { controllers: [{ name: "a" }, { name: "b" }] } };
const ALONE = { spec: { managed: { replicas: 1 } }, status: { controllers: [{ name: "a" }] } };
type Network = Parameters<typeof outlastFailover>[0];

const never = new AbortController().signal;
const isAway = (answer: string) => answer === "away";

/** Gives the answers in turn, the last one for ever. */
function asking(...answers: readonly string[]) {
  let asked = 0;
  const ask = async () => answers[Math.min(asked++, answers.length - 1)] ?? "";
  return { ask, count: () => asked };
}

describe("a network that seems to be away", () => {
  test.each([
    ["that is run here", SEVERAL],
    ["whose controllers are known", LISTED],
  ])("is asked until another of its controllers answers: one %s", async (_which, network) => {
    const { ask, count } = asking("away", "away", "here");
    expect(await outlastFailover(network as unknown as Network, ask, isAway, never)).toBe("here");
    expect(count()).toBe(3);
  });

  test("is asked once if it has one controller", async () => {
    const { ask, count } = asking("away", "here");
    expect(await outlastFailover(ALONE as unknown as Network, ask, isAway, never)).toBe("away");
    expect(count()).toBe(1);
  });

  test("counts as away after 3 s", async () => {
    const { ask, count } = asking("away");
    const from = performance.now();
    expect(await outlastFailover(SEVERAL as unknown as Network, ask, isAway, never)).toBe("away");
    expect(performance.now() - from).toBeGreaterThan(2_900);
    expect(count()).toBeGreaterThan(5);
  });

  test("is not asked again once the caller leaves", async () => {
    const caller = new AbortController();
    let asked = 0;
    const ask = async () => {
      asked += 1;
      caller.abort(new Error("left"));
      return "away";
    };
    await expect(outlastFailover(SEVERAL as unknown as Network, ask, isAway, caller.signal)).rejects.toThrow("left");
    expect(asked).toBe(1);
  });
});
