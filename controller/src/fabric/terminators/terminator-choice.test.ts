import { expect, test } from "vitest";
import { PathFinder } from "../circuits/path.ts";
import type { CircuitService, TerminatorRecord } from "../ports.ts";
import { chooseTerminator } from "./terminator-choice.ts";

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
  ["none", service, "", [], "NO_TERMINATORS: service s1 has no terminators"],
  [
    "none of the instance",
    service,
    "i1",
    [terminator("t", "b")],
    "NO_TERMINATORS: service s1 has no terminators for instanceId i1",
  ],
  [
    "none online",
    service,
    "",
    [terminator("t", "away")],
    "NO_ONLINE_TERMINATORS: service s1 has no online terminators for instanceId ",
  ],
  ["no path", service, "", [terminator("t", "island")], "NO_PATH: no path from router a to a terminator of service s1"],
  [
    "unknown strategy",
    { ...service, terminatorStrategy: "ha" },
    "",
    [terminator("t", "b")],
    'INVALID_STRATEGY: service s1 asks for the unknown terminator strategy "ha"',
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
