import type { MfaBefore } from "../../store/changes/logged-write.ts";
import type { ModelStore } from "../context.ts";
import type { PostureReports } from "./posture-reports.ts";
import type { StoredReports } from "./stored-reports.ts";

/** Follows what other controllers write of posture: it is read again before the next decision. @param onReset anything may have been written. @returns what ends it */
export function followPosture(
  changes: ModelStore["changes"],
  { reports, stored }: { readonly reports: PostureReports; readonly stored: Pick<StoredReports, "isOwn"> },
  onReset: () => void,
): () => void {
  return changes.subscribe({
    name: "posture",
    isPrompt: true,
    onChanges: (rows) => {
      for (const { kind, key, op, before } of rows) {
        const isPosture = kind === "posture_report" || kind === "posture_state";
        if (isPosture && !stored.isOwn(before)) reports.changedInStore(key);
        if (kind !== "mfa" || op !== "delete" || before === null) continue;
        reports.changedInStore((before as unknown as MfaBefore).identityId);
      }
    },
    onReset: () => {
      reports.anythingChangedInStore();
      onReset();
    },
  });
}
