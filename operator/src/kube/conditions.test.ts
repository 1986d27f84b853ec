import { describe, expect, test } from "vitest";
import { type Condition, conditionOf, type Health, healthOf, type Judged, nextConditions } from "./conditions.ts";

const early = new Date("2026-11-02T10:00:00.123Z");
const late = new Date("2026-11-02T11:00:00.987Z");

function draft(type: string, status: Condition["status"], reason = "Because", message = "so") {
  return { type, status, reason, message };
}

describe("conditions", () => {
  const first = nextConditions([], [draft("Ready", "False"), draft("Reconciling", "True")], 3, early);

  test("begin with the first decision, in whole seconds", () => {
    expect(first).toEqual([
      { ...draft("Ready", "False"), observedGeneration: 3, lastTransitionTime: "2026-11-02T10:00:00Z" },
      { ...draft("Reconciling", "True"), observedGeneration: 3, lastTransitionTime: "2026-11-02T10:00:00Z" },
    ]);
  });

  test("keep their time while the status stays, whatever reason, message and generation are", () => {
    const next = nextConditions(first, [draft("Ready", "False", "Other", "else")], 4, late);
    const kept = { observedGeneration: 4, lastTransitionTime: "2026-11-02T10:00:00Z" };
    expect(next).toEqual([{ ...draft("Ready", "False", "Other", "else"), ...kept }]);
  });

  test("get another time with another status; what no longer applies is removed", () => {
    const next = nextConditions(first, [draft("Ready", "True")], 3, late);
    expect(next).toHaveLength(1);
    expect(conditionOf(next, "Ready")?.lastTransitionTime).toBe("2026-11-02T11:00:00Z");
  });

  test("are the same for the same decision later: nothing to write", () => {
    expect(nextConditions(first, [draft("Ready", "False"), draft("Reconciling", "True")], 3, late)).toEqual(first);
  });

  test("are cut and refused where the API server would refuse them", () => {
    const [long] = nextConditions([], [draft("Ready", "True", "Ok", "x".repeat(40_000))], 1);
    expect(long?.message).toHaveLength(32_768);
    for (const reason of ["", "two words", "Ends:", "1st", "x".repeat(1025)]) {
      expect(() => nextConditions([], [draft("Ready", "True", reason)], 1)).toThrow(RangeError);
    }
  });
});

describe("health as generic tools see it", () => {
  const ready = (status: Condition["status"]) => draft("Ready", status);
  const of = (conditions: ReturnType<typeof draft>[] | undefined, observedGeneration?: number): Judged => ({
    metadata: { generation: 4 },
    status: { observedGeneration, conditions },
  });
  // biome-ignore format: a table
  test.each<[string, Judged, Health]>([
    ["being deleted, even when stalled", { ...of([draft("Stalled", "True")], 4), metadata: { generation: 4, deletionTimestamp: "now" } },
      "Terminating"],
    ["an older generation, even when ready", of([ready("True")], 3), "InProgress"],
    ["never looked at, with the default status", of(undefined, -1), "InProgress"],
    ["reconciling, even when ready", of([ready("True"), draft("Reconciling", "True")], 4), "InProgress"],
    ["stalled", of([ready("False"), draft("Stalled", "True")], 4), "Failed"],
    ["reconciling before stalled", of([draft("Reconciling", "True"), draft("Stalled", "True")], 4), "InProgress"],
    ["stalled before reconciling", of([draft("Stalled", "True"), draft("Reconciling", "True")], 4), "Failed"],
    ["not stalled, not reconciling", of([draft("Stalled", "False"), draft("Reconciling", "False"), ready("True")], 4), "Current"],
    ["not ready", of([ready("False")], 4), "InProgress"],
    ["perhaps ready", of([ready("Unknown")], 4), "InProgress"],
    ["ready", of([ready("True")]), "Current"],
    ["empty", { metadata: { generation: 1 } }, "Current"],
  ])("%s", (_, object, health) => {
    expect(healthOf(object).health).toBe(health);
  });
});
