import type { ConditionDraft } from "../../kube/status/condition.ts";

/** What a person has to mend, although it is taken up by itself once it is mended, so that it is no `Stalled`. */
const TO_MEND = new Set([
  "ConfigMapKeyMissing",
  "ConfigMapNotFound",
  "ControllerUnavailable",
  "InternalError",
  "NetworkNotFound",
  "NetworkUnauthorized",
  "PodFailing",
  "PodRefused",
  "ReferenceNotFound",
  "SecretKeyMissing",
  "SecretKeyNotFound",
  "SecretNotFound",
  "VolumePending",
]);

/** `Warning` for what somebody should look at, `Normal` for what is on its way: decides which of them `kubectl events --types=Warning` shows. */
export function eventTypeOf(conditions: readonly ConditionDraft[]): "Normal" | "Warning" {
  const needsSomebody = conditions.some(({ type, status, reason }) =>
    type === "Ready" ? status === "False" && TO_MEND.has(reason) : type === "Stalled" || type === "DeletionBlocked",
  );
  return needsSomebody ? "Warning" : "Normal";
}
