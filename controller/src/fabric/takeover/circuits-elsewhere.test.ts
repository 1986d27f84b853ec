import { silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ALONE, type CircuitReport, type FabricReplicas } from "../replicas.ts";
import { CircuitsElsewhere } from "./circuits-elsewhere.ts";

/** Ids of each lookup. */
let lookups: string[][];
let passed: { to: string; reports: readonly CircuitReport[] }[];
let pass: FabricReplicas["pass"];
/** Lookups wait for it. */
let gate: Promise<void>;
let elsewhere: CircuitsElsewhere;

beforeEach(() => {
  lookups = [];
  passed = [];
  gate = Promise.resolve();
  pass = async (to, reports) => void passed.push({ to, reports });
  const replicas: FabricReplicas = {
    ...ALONE,
    isShared: true,
    ownersOf: async (ids) => {
      lookups.push([...ids]);
      await gate;
      return new Map();
    },
    pass: (to, reports) => pass(to, reports),
  };
  elsewhere = new CircuitsElsewhere({ replicas, onOver: () => undefined, log: silentLogger });
});
afterEach(() => {
  elsewhere.close();
  vi.useRealTimers();
});

const unknown = (routerId: string, circuitId: string, kind: "ended" | "unforwardable" = "unforwardable") => ({
  report: { kind, routerId, circuitId } as const,
  owner: "other",
  isUnrouted: false,
});
const many = (routerId: string, count: number) => Array.from({ length: count }, (_, n) => unknown(routerId, `c${n}`));
const idle = () => new Promise((resolve) => setImmediate(resolve));

it("one lookup runs at a time, of which a router that floods has no more than its share, and what waits is bounded", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  gate = promise;
  for (let n = 0; n < 10; n++) elsewhere.offer(many("broken", 10_000));
  elsewhere.offer(many("whole", 100));
  await idle();
  expect(lookups).toHaveLength(1);
  resolve();
  await vi.waitFor(() => expect(passed.flatMap(({ reports }) => reports)).toHaveLength(10_500 + 100));
  expect(Math.max(...lookups.map(({ length }) => length))).toBeLessThanOrEqual(500);
  const second = passed[1]?.reports ?? [];
  expect(second.filter(({ routerId }) => routerId === "whole")).toHaveLength(100);
});

it("what cannot be the id of a circuit or a controller is not looked up", async () => {
  elsewhere.offer([
    ...["", "x\0y", "é", "x y", "x".repeat(65)].map((id) => unknown("broken", id)),
    { ...unknown("broken", "c1"), owner: "x".repeat(1_000) },
    unknown("whole", "c2"),
  ]);
  await vi.waitFor(() => expect(passed).toHaveLength(1));
  expect(lookups).toEqual([["c2"]]);
});

it("the end of a circuit, which routers report once, is passed on again when that failed", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let fails = 2;
  pass = async (to, reports) => {
    if (fails-- > 0) throw new Error("away");
    passed.push({ to, reports });
  };
  elsewhere.offer([unknown("a", "c1", "ended"), unknown("a", "c2")]);
  await idle();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(passed).toEqual([{ to: "other", reports: [{ kind: "ended", routerId: "a", circuitId: "c1" }] }]);
  fails = 1_000;
  elsewhere.offer([unknown("a", "c3", "ended")]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(fails).toBe(995);
});
