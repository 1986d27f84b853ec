import { expect, test } from "vitest";
import { type LabelSelector, selects } from "./label-selector.ts";

const labels = { app: "web", tier: "front" };

test.each<[selector: LabelSelector, isSelected: boolean]>([
  [{}, true],
  [{ matchLabels: { app: "web" } }, true],
  [{ matchLabels: { app: "web", tier: "back" } }, false],
  [{ matchExpressions: [{ key: "app", operator: "In", values: ["web", "db"] }] }, true],
  [{ matchExpressions: [{ key: "zone", operator: "In", values: ["a"] }] }, false],
  [{ matchExpressions: [{ key: "zone", operator: "NotIn", values: ["a"] }] }, true],
  [{ matchExpressions: [{ key: "app", operator: "NotIn", values: ["web"] }] }, false],
  [{ matchExpressions: [{ key: "tier", operator: "Exists" }] }, true],
  [{ matchExpressions: [{ key: "tier", operator: "DoesNotExist" }] }, false],
  [{ matchLabels: { app: "web" }, matchExpressions: [{ key: "zone", operator: "Exists" }] }, false],
])("%j selects the labels of a front: %s", (selector, isSelected) => {
  expect(selects(selector, labels)).toBe(isSelected);
});

test("what has no labels is selected by the empty selector only", () => {
  expect(selects({})).toBe(true);
  expect(selects({ matchLabels: { app: "web" } })).toBe(false);
});
