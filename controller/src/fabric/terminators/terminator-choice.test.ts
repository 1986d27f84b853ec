import type { PrecedenceName } from "@sallyport/wire";
import { describe, expect, test } from "vitest";
import { biasedCost } from "../circuits/costs.ts";
import { PathFinder } from "../circuits/path.ts";
import { type CircuitService, isTerminatorStrategy, type TerminatorRecord } from "../ports.ts";
import { chooseTerminator, selectTerminator, type TerminatorCandidate } from "./terminator-choice.ts";

const service: CircuitService = {
  id: "s1",
  name: "web",
  terminatorStrategy: "smartrouting",
  encryptionRequired: false,
  maxIdleTimeMs: 0,
};
const terminator = (id: string, routerId: string, extra: Partial<TerminatorRecord> = {}): TerminatorRecord => ({
  id,
  serviceId: "s1",
  routerId,
  binding: "edge",
  address: id,
  instanceId: "",
  cost: 0,
  precedence: "default",
  peerData: new Map(),
  hostId: "",
  createdAt: new Date(0),
  ...extra,
});
const router = (id: string) => ({ id, cost: 0, noTraversal: false });
const paths = new PathFinder(
  ["a", "b", "c", "island"].map(router),
  [
    { id: "ab", source: "a", destination: "b", cost: 8 },
    { id: "bc", source: "b", destination: "c", cost: 8 },
  ],
  10,
);
const connected = new Set(["a", "b", "c", "island"]);

test.each([
  ["the nearer terminator", service, "", [terminator("far", "c"), terminator("near", "b")], "near"],
  ["one on the router itself", service, "", [terminator("near", "b"), terminator("here", "a")], "here"],
  ["cost against distance", service, "", [terminator("near", "b", { cost: 19 }), terminator("far", "c")], "far"],
  [
    "only those of the instance",
    service,
    "i1",
    [terminator("t", "b"), terminator("i", "c", { instanceId: "i1" })],
    "i",
  ],
  [
    "only those that can be reached",
    service,
    "",
    [terminator("x", "island", { precedence: "required" }), terminator("t", "b")],
    "t",
  ],
  ["none", service, "", [], "NO_TERMINATORS: service web has no terminators"],
  [
    "none of the instance",
    service,
    "i1",
    [terminator("t", "b")],
    "NO_TERMINATORS: service web has no terminators for instanceId i1",
  ],
  [
    "none online",
    service,
    "",
    [terminator("t", "away")],
    "NO_ONLINE_TERMINATORS: service web has no online terminators for instanceId ",
  ],
  [
    "no path",
    service,
    "",
    [terminator("t", "island")],
    "NO_PATH: no path from router a to a terminator of service web",
  ],
  [
    "unknown strategy",
    { ...service, terminatorStrategy: "ha" },
    "",
    [terminator("t", "b")],
    'INVALID_STRATEGY: service web asks for the unknown terminator strategy "ha"',
  ],
  [
    "dynamic cost against distance",
    service,
    "",
    [terminator("loaded", "b"), terminator("far", "c"), terminator("loaded too", "b")],
    "far",
  ],
  [
    "a required one, however loaded",
    service,
    "",
    [terminator("loaded", "c", { precedence: "required", cost: 65_535 }), terminator("near", "b")],
    "loaded",
  ],
  [
    "a failed one when there is no other",
    service,
    "",
    [terminator("bad", "c", { precedence: "failed" }), terminator("away", "gone", { precedence: "required" })],
    "bad",
  ],
  [
    "sticky: the asked one of the instance",
    { ...service, terminatorStrategy: "sticky" },
    "i1",
    [terminator("i", "b", { instanceId: "i1" }), terminator("asked", "c", { instanceId: "i1" })],
    "asked",
  ],
  [
    "sticky: not the asked one of another instance",
    { ...service, terminatorStrategy: "sticky" },
    "i1",
    [terminator("asked", "b"), terminator("i", "c", { instanceId: "i1" })],
    "i",
  ],
  [
    "sticky: not the asked one that is offline",
    { ...service, terminatorStrategy: "sticky" },
    "",
    [terminator("asked", "away"), terminator("t", "c")],
    "t",
  ],
])("%s", (_name, of, instanceId, terminators, expected) => {
  const choice = chooseTerminator(
    { service: of, instanceId, from: "a", stickyId: "asked" },
    terminators,
    paths,
    (id) => connected.has(id),
    { of: (id) => (id.startsWith("loaded") ? 20 : 0) },
  );
  expect(choice.ok ? choice.terminator.id : `${choice.cause}: ${choice.message}`).toBe(expected);
});

function candidate(id: string, precedence: PrecedenceName, cost: number): TerminatorCandidate {
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
