import type { ConditionDraft } from "../kube/status/condition.ts";
import { entityConditions, OBSERVED, unready } from "../loop/conditions.ts";
import { missingReason, missingText } from "./references.ts";
import type { SyncResult } from "./sync.ts";

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
      if (differences.length === 0) return entityConditions(ready, ready);
      const message = `not as in the spec: ${differences.join(", ")}; managementPolicy Observe leaves that as it is`;
      return entityConditions({ status: "False", reason: OBSERVED, message }, ready);
    }
    case "synced": {
      if (result.missing.length > 0) {
        const { missing } = result;
        return unready(missingReason(missing), `${missingText(missing)}; the rest is in force`, "Reconciling");
      }
      const ready = { status: "True", reason: "Synced", message: "the network has it as in the spec" } as const;
      return entityConditions(ready, ready);
    }
  }
}
