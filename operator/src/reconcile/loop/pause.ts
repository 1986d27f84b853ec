import type { Condition, ConditionDraft } from "../../kube/status/condition.ts";
import { ANNOTATIONS } from "../../resources/group.ts";
import type { AnyResource } from "./kind-reconciler.ts";

const PAUSED = "ReconciliationPaused";

export const isPaused = ({ metadata }: AnyResource): boolean => metadata.annotations?.[ANNOTATIONS.pause] === "true";

/** Everything stays as it was found last, and one more condition says that nobody looks. */
export function conditionsOfPause(previous: readonly Condition[]): ConditionDraft[] {
  const before = previous
    .filter(({ type }) => type !== PAUSED)
    .map(({ type, status, reason, message }) => ({ type, status, reason, message }));
  const message = `the annotation ${ANNOTATIONS.pause} keeps the operator from changing anything; take it away to go on`;
  const unknown: ConditionDraft = { type: "Ready", status: "Unknown", reason: "Paused", message };
  const first = before.some(({ type }) => type === "Ready") ? before : [unknown, ...before];
  return [...first, { type: PAUSED, status: "True", reason: "Annotated", message }];
}
