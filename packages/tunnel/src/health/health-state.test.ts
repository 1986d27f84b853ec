import { describe, expect, it } from "vitest";
import type { HealthAction } from "../config/health-config.ts";
import { applyEffect, CheckHistory, type Offer } from "./health-state.ts";

const action = (more: Partial<HealthAction>): HealthAction => ({
  trigger: "fail",
  consecutiveEvents: 0,
  durationMs: 0,
  effect: { kind: "send event" },
  ...more,
});

/** Which results (by their place) call for an action; a result every second. */
function called(one: HealthAction, results: string): number[] {
  const history = new CheckHistory();
  return [...results].flatMap((result, i) => (history.add(result === "+", i * 1_000, [one]).length > 0 ? [i] : []));
}

describe("actions of a check", () => {
  it.each<[string, Partial<HealthAction>, string, number[]]>([
    ["every failure", { trigger: "fail" }, "+-+--", [1, 3, 4]],
    ["every pass", { trigger: "pass" }, "+-+--", [0, 2]],
    ["changes; a first pass is none", { trigger: "change" }, "++--+-", [2, 4, 5]],
    ["a first failure is a change", { trigger: "change" }, "-", [0]],
    ["so many in a row", { consecutiveEvents: 3 }, "--+----", [5, 6]],
    ["one in a row is each", { consecutiveEvents: 1 }, "-+-", [0, 2]],
    ["for so long", { durationMs: 2_000 }, "----+---", [2, 3, 7]],
    ["passing for so long", { trigger: "pass", durationMs: 1_000 }, "+-++", [3]],
    ["so many and for so long", { consecutiveEvents: 2, durationMs: 2_000 }, "---", [2]],
  ])("%s", (_, one, results, expected) => {
    expect(called(action(one), results)).toEqual(expected);
  });

  it("times are rounded to tenths of a second", () => {
    const history = new CheckHistory();
    const one = [action({ durationMs: 1_000 })];
    expect(history.add(false, 0, one)).toEqual([]);
    expect(history.add(false, 949, one)).toEqual([]);
    expect(history.add(false, 950, one)).toEqual(one);
  });

  it("all that apply are given, in their order", () => {
    const [first, second] = [action({}), action({ trigger: "change" })];
    expect(new CheckHistory().add(false, 0, [first!, second!, action({ trigger: "pass" })])).toEqual([first, second]);
  });
});

describe("effects on how a terminator is offered", () => {
  const baseline: Offer = { cost: 10, precedence: "required" };
  it.each<[string, Offer, Parameters<typeof applyEffect>[2], Offer]>([
    ["unhealthy", baseline, { kind: "mark unhealthy" }, { cost: 10, precedence: "failed" }],
    ["healthy", { cost: 20, precedence: "failed" }, { kind: "mark healthy" }, { cost: 20, precedence: "required" }],
    ["dearer", baseline, { kind: "increase cost", by: 5 }, { cost: 15, precedence: "required" }],
    ["dearest", baseline, { kind: "increase cost", by: 65_535 }, { cost: 65_535, precedence: "required" }],
    [
      "failed ones do not get dearer",
      { cost: 10, precedence: "failed" },
      { kind: "increase cost", by: 5 },
      { cost: 10, precedence: "failed" },
    ],
    [
      "cheaper",
      { cost: 30, precedence: "required" },
      { kind: "decrease cost", by: 5 },
      { cost: 25, precedence: "required" },
    ],
    [
      "never cheaper than configured",
      { cost: 12, precedence: "failed" },
      { kind: "decrease cost", by: 5 },
      { cost: 10, precedence: "failed" },
    ],
    ["an event changes nothing", baseline, { kind: "send event" }, baseline],
  ])("%s", (_, offer, effect, after) => {
    expect(applyEffect(offer, baseline, effect)).toEqual(after);
  });
});
