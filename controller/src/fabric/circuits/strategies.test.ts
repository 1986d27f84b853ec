import type { PrecedenceName } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { isTerminatorStrategy } from "../ports.ts";
import { biasedCost } from "./costs.ts";
import { type Candidate, selectTerminator } from "./strategies.ts";

function candidate(id: string, precedence: PrecedenceName, cost: number): Candidate {
  return { id, precedence, cost: biasedCost({ precedence, staticCost: cost, dynamicCost: 0, pathCost: 0 }) };
}

const cheap = candidate("cheap", "default", 10);
const dear = candidate("dear", "default", 30);
const dearest = candidate("dearest", "default", 60);
const failed = candidate("failed", "failed", 0);
const required = candidate("required", "required", 50_000);

describe("terminator choice", () => {
  test.each([
    ["smartrouting takes the cheapest", "smartrouting", [dear, cheap, failed], 0.99, undefined, "cheap"],
    ["a required terminator beats any cost", "smartrouting", [cheap, required], 0, undefined, "required"],
    [
      "equal costs are decided by id",
      "smartrouting",
      [
        { ...cheap, id: "b" },
        { ...cheap, id: "a" },
      ],
      0,
      undefined,
      "a",
    ],
    ["random draws the first", "random", [cheap, dear, failed], 0, undefined, "cheap"],
    ["random draws the last of the best precedence", "random", [cheap, dear, failed], 0.999, undefined, "dear"],
    ["weighted gives the cheaper one 3/4", "weighted", [cheap, dear], 0.74, undefined, "cheap"],
    ["weighted gives the dearer one 1/4", "weighted", [cheap, dear], 0.76, undefined, "dear"],
    ["weighted with one terminator", "weighted", [cheap, failed], 0.99, undefined, "cheap"],
    ["weighted with three: the first gets 0.45", "weighted", [cheap, dear, dearest], 0.44, undefined, "cheap"],
    ["weighted with three: the second gets 0.35", "weighted", [cheap, dear, dearest], 0.46, undefined, "dear"],
    ["weighted with three: the third gets 0.2", "weighted", [cheap, dear, dearest], 0.81, undefined, "dearest"],
    [
      "weighted counts a cost of 0 as 1",
      "weighted",
      [candidate("x", "required", 0), candidate("y", "required", 0)],
      0.49,
      undefined,
      "x",
    ],
    ["sticky keeps to the asked one", "sticky", [cheap, dear], 0, "dear", "dear"],
    ["sticky takes the cheapest when the asked one is gone", "sticky", [cheap, dear], 0, "gone", "cheap"],
    ["sticky leaves a terminator of a worse precedence", "sticky", [cheap, failed], 0, "failed", "cheap"],
  ] as const)("%s", (_name, strategy, candidates, draw, stickyId, expected) => {
    const selection = selectTerminator(strategy, candidates, { random: () => draw, stickyId });
    expect(selection?.chosen.id).toBe(expected);
    expect(selection?.stickyId).toBe(strategy === "sticky" ? expected : undefined);
  });

  test("nothing to choose from", () => {
    expect(selectTerminator("random", [], { random: () => 0 })).toBeUndefined();
  });

  test("knows its names", () => {
    expect(isTerminatorStrategy("sticky")).toBe(true);
    expect(isTerminatorStrategy("ha")).toBe(false);
  });
});
