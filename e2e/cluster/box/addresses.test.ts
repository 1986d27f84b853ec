import { expect, test } from "vitest";
import { addressesOf, MAX_NODES, SLOTS } from "./addresses.ts";

/** First and last address of a CIDR, as numbers. */
function range(cidr: string): readonly [number, number] {
  const [address = "", bits = "32"] = cidr.split("/");
  const first = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const size = 2 ** (32 - Number(bits));
  expect(first % size).toBe(0);
  return [first, first + size - 1];
}

test("no two clusters share an address", () => {
  const ranges = Array.from({ length: SLOTS }, (_, slot) => range(addressesOf(slot).network));
  ranges.forEach(([first], slot) => {
    const before = ranges[slot - 1];
    if (before !== undefined) expect(first).toBe(before[1] + 1);
  });
  expect(ranges.at(-1)?.[1]).toBe(range("198.18.0.0/15")[1]);
});

test("everything of a cluster lies in its network, and its parts do not overlap", () => {
  const plan = addressesOf(19);
  const parts = [
    ...[plan.machine, plan.box, plan.controlPlane],
    ...Array.from({ length: MAX_NODES }, (_, i) => plan.node(i + 1)),
    plan.services,
    ...plan.balanced,
    ...Array.from({ length: MAX_NODES }, (_, i) => plan.podsOf(i + 1)),
  ].map(range);
  const whole = range(plan.network);
  for (const [first, last] of parts) {
    expect(first).toBeGreaterThanOrEqual(whole[0]);
    expect(last).toBeLessThanOrEqual(whole[1]);
    expect(parts.filter(([from, to]) => from <= last && first <= to)).toHaveLength(1);
  }
  for (const inside of [plan.kubernetesService, plan.nameServer]) {
    expect(range(inside)[0]).toBeGreaterThan(range(plan.services)[0]);
    expect(range(inside)[0]).toBeLessThan(range(plan.services)[1]);
  }
  expect(range(plan.pods)).toEqual([range(plan.podsOf(1))[0], range(plan.podsOf(MAX_NODES))[1]]);
});

test("what is outside of the plan is refused", () => {
  expect(() => addressesOf(SLOTS)).toThrow("expected a slot");
  expect(() => addressesOf(0).node(0)).toThrow("expected a node");
  expect(() => addressesOf(0).podsOf(MAX_NODES + 1)).toThrow("expected a node");
});
