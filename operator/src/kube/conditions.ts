import { secondTime } from "./formats.ts";

/** One fact about an object, as `status.conditions` holds it. */
export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  /** Generation of the spec that was looked at. */
  observedGeneration?: number | undefined;
  /** When `status` last changed: RFC 3339, whole seconds. */
  lastTransitionTime: string;
  /** One machine word. */
  reason: string;
  /** What is so and what to do, for people. */
  message: string;
}

/** A condition as it is decided: when it began follows from what was there before. */
export type ConditionDraft = Pick<Condition, "type" | "status" | "reason" | "message">;

/** The draft that leaves a condition as it is. */
export function draftOf({ type, status, reason, message }: ConditionDraft): ConditionDraft {
  return { type, status, reason, message };
}

const MESSAGE_LIMIT = 32_768;
const REASON_LIMIT = 1024;
const REASON = /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/;

/**
 * The conditions of an object after a reconcile that saw `generation`. `drafts` are all of the conditions that apply now, in the order to show;
 * what is not among them is removed. The time of a condition changes with its status only, so equal decisions give equal conditions.
 * @throws RangeError for a reason that the API server would refuse
 */
export function nextConditions(
  previous: readonly Condition[],
  drafts: readonly ConditionDraft[],
  generation: number | undefined,
  now = new Date(),
): Condition[] {
  return drafts.map(({ type, status, reason, message }) => {
    if (!REASON.test(reason) || reason.length > REASON_LIMIT) {
      throw new RangeError(
        `"${reason}" cannot be the reason of condition ${type}: one word of letters and digits is expected`,
      );
    }
    const before = previous.find((condition) => condition.type === type);
    return {
      type,
      status,
      observedGeneration: generation,
      lastTransitionTime: before?.status === status ? before.lastTransitionTime : secondTime(now),
      reason,
      message: message.length <= MESSAGE_LIMIT ? message : `${message.slice(0, MESSAGE_LIMIT - 1)}…`,
    };
  });
}

export function conditionOf(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

export type Health = "Current" | "InProgress" | "Failed" | "Terminating";

/** What generic tools look at. */
export interface Judged {
  readonly metadata: { readonly generation?: number | undefined; readonly deletionTimestamp?: string | undefined };
  readonly status?:
    | {
        readonly observedGeneration?: number | undefined;
        readonly conditions?: readonly Pick<Condition, "type" | "status" | "reason" | "message">[] | undefined;
      }
    | undefined;
}

/**
 * How `kubectl`, Flux and Argo CD judge a custom resource that follows the conventions (docs/operator/machinery.md, "Conditions"):
 * the first of the six tests that fits decides.
 */
export function healthOf({ metadata, status }: Judged): { health: Health; message: string } {
  const { observedGeneration, conditions = [] } = status ?? {};
  if (metadata.deletionTimestamp !== undefined) return { health: "Terminating", message: "it is being deleted" };
  if (observedGeneration !== undefined && observedGeneration !== metadata.generation) {
    const message = `generation ${metadata.generation} is not observed yet, the last was ${observedGeneration}`;
    return { health: "InProgress", message };
  }
  const abnormal = conditions.find(
    ({ type, status }) => status === "True" && (type === "Reconciling" || type === "Stalled"),
  );
  if (abnormal !== undefined) {
    return { health: abnormal.type === "Stalled" ? "Failed" : "InProgress", message: abnormal.message };
  }
  const ready = conditions.find(({ type }) => type === "Ready");
  if (ready === undefined) return { health: "Current", message: "it says nothing about being ready" };
  return { health: ready.status === "True" ? "Current" : "InProgress", message: ready.message };
}
