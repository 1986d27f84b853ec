import { type Condition, type ConditionDraft, conditionOf } from "../../kube/status/condition.ts";
import type { SyncResult } from "../../network/entity-sync.ts";
import type { Failure } from "../../network/failure.ts";
import { missingReason, missingText } from "../../plan/entity/references.ts";

/** Reason of `Synced` while a resource only looks at its entity. */
const OBSERVED = "Observed";

/** Whether what `status.id` names was only looked at when the status was written: then it is not ours by that. */
export const wasObserved = (conditions: readonly Condition[] | undefined): boolean =>
  conditionOf(conditions, "Synced")?.reason === OBSERVED;

/** Reason of `Synced` beside a refusal: that the entity was only looked at must not be forgotten, else its id would count as ours. */
export const syncedReason = (previous: readonly Condition[] | undefined, reason: string): string =>
  wasObserved(previous) ? OBSERVED : reason;

type Outcome = Omit<ConditionDraft, "type">;

const drafts = (synced: Outcome, ready: Outcome, more?: "Reconciling" | "Stalled"): ConditionDraft[] => [
  { type: "Synced", ...synced },
  { type: "Ready", ...ready },
  ...(more === undefined ? [] : [{ type: more, ...ready, status: "True" as const }]),
];

/** It is not as wanted yet: `Reconciling` when that passes, `Stalled` when somebody has to act. */
function unready(reason: string, message: string, more: "Reconciling" | "Stalled"): ConditionDraft[] {
  const outcome = { status: "False", reason, message } as const;
  return drafts(outcome, outcome, more);
}

/** The conditions of a resource after its entity was looked at. */
export function conditionsOfSync(result: SyncResult<unknown>): ConditionDraft[] {
  switch (result.state) {
    case "conflict":
      return unready(result.reason, result.message, "Stalled");
    case "waiting":
      return unready(result.reason, result.message, "Reconciling");
    case "observed": {
      const { differences } = result;
      const ready = { status: "True", reason: OBSERVED, message: "the entity exists; it is only observed" } as const;
      if (differences.length === 0) return drafts(ready, ready);
      const message = `not as in the spec: ${differences.join(", ")}; managementPolicy Observe leaves that as it is`;
      return drafts({ status: "False", reason: OBSERVED, message }, ready);
    }
    case "synced": {
      if (result.missing.length > 0) {
        const { missing } = result;
        return unready(missingReason(missing), `${missingText(missing)}; the rest is in force`, "Reconciling");
      }
      const ready = { status: "True", reason: "Synced", message: "the network has it as in the spec" } as const;
      return drafts(ready, ready);
    }
  }
}

/**
 * The conditions after a failure. While a network can't be used, a resource that was in order before stays as it is: the Network shows
 * what is wrong, and an outage does not rewrite every resource twice.
 */
export function conditionsOfFailure(
  { reason, message, isStalled, retry }: Failure,
  previous: readonly Condition[],
  generation: number,
): ConditionDraft[] {
  const ready = conditionOf(previous, "Ready");
  const mayPass = (retry === "connection" || retry === "backoff") && reason !== "InUse" && reason !== "NetworkNotFound";
  const isPassing = !isStalled && mayPass;
  if (isPassing && ready?.status === "True" && ready.observedGeneration === generation) {
    return previous.map(({ type, status, reason, message }) => ({ type, status, reason, message }));
  }
  const conditions = unready(reason, message, isStalled ? "Stalled" : "Reconciling");
  return conditions.map((draft) =>
    draft.type === "Synced" ? { ...draft, reason: syncedReason(previous, draft.reason) } : draft,
  );
}
