import { expect, test } from "vitest";
import type { ConditionDraft } from "../../kube/status/condition.ts";
import { eventTypeOf } from "./event-type.ts";

const draft = (type: string, status: "True" | "False", reason: string): ConditionDraft => ({
  type,
  status,
  reason,
  message: "why",
});

test.each<[string, ConditionDraft[], string]>([
  ["what is in order", [draft("Ready", "True", "Synced")], "Normal"],
  ["what is on its way", [draft("Ready", "False", "ReferenceNotReady")], "Normal"],
  ["a name that nothing has", [draft("Ready", "False", "ReferenceNotFound")], "Warning"],
  ["what is stuck", [draft("Ready", "False", "NameConflict"), draft("Stalled", "True", "NameConflict")], "Warning"],
  ["a deletion that is held up", [draft("DeletionBlocked", "True", "InUse")], "Warning"],
])("%s is shown among the warnings when somebody has to look", (_what, conditions, type) => {
  expect(eventTypeOf(conditions)).toBe(type);
});
