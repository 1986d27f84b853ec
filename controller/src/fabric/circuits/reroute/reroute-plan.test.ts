import { describe, expect, test } from "vitest";
import type { Path } from "../path.ts";
import { planSmartReroutes } from "./reroute-plan.ts";

const policy = { rerouteFraction: 0.02, rerouteCap: 4, minCostDelta: 15 };
const circuit = (id: string, link: string) => ({ id, routers: ["a", "b"], links: [link] });
const better: Path = { routers: ["a", "b"], links: ["new"], cost: 11 };
const costs: Record<string, number> = { new: 11, old: 26, same: 25, dear: 500 };
const costOf = (path: { links: readonly string[] }) => path.links.reduce((sum, id) => sum + (costs[id] ?? 0), 0);

describe("smart rerouting", () => {
  test.each([
    ["a gain of exactly the minimum counts", ["old"], ["c0"]],
    ["a smaller gain does not", ["same"], []],
    ["one circuit per cycle while there are few, the dearest first", ["old", "dear", "old"], ["c1"]],
    ["a circuit already on the best path stays", ["new"], []],
  ])("%s", (_name, links, expected) => {
    const circuits = links.map((link, i) => circuit(`c${i}`, link));
    const plan = planSmartReroutes(circuits, costOf, () => better, policy);
    expect(plan.map((p) => p.circuit.id)).toEqual(expected);
  });

  test.each([
    [100, 2],
    [199, 3],
    [1000, 4],
  ])("of %i circuits %i are moved", (count, expected) => {
    const circuits = Array.from({ length: count }, (_, i) => circuit(`c${i}`, "dear"));
    expect(planSmartReroutes(circuits, costOf, () => better, policy)).toHaveLength(expected);
  });

  test("no path and circuits inside one router are left alone", () => {
    expect(planSmartReroutes([circuit("c", "dear")], costOf, () => undefined, policy)).toEqual([]);
    expect(planSmartReroutes([{ id: "c", routers: ["a"], links: [] }], costOf, () => better, policy)).toEqual([]);
  });
});
