import { failureOf } from "../controller-client/errors.ts";
import { isRefusedObject, KubeError } from "../kube/client/errors.ts";
import type { Condition, ConditionDraft } from "../kube/conditions.ts";
import { LeadershipLostError } from "../kube/election/elector.ts";
import { conditionsOfFailure, kept } from "./status.ts";

/**
 * When to look again. `later`: later and later. `after`: at that time. `change`: when what it depends on changes, and at the usual time.
 */
export type NextReconcile = "later" | "change" | { readonly afterMs: number };

/** What an error of a reconcile means to its resource. */
export interface ReconcileFailure {
  readonly reason: string;
  readonly message: string;
  /** What to show. Undefined: nothing changes in the status, the next look comes soon. */
  readonly conditions: readonly ConditionDraft[] | undefined;
  readonly next: NextReconcile;
  readonly isStalled: boolean;
}

interface ReconcileFailureOptions {
  readonly previous: readonly Condition[];
  readonly generation: number;
  /** For people who look for it in the log. */
  readonly reconcileId: string;
}

/** Pure: says what an error means (docs/operator/loop.md, "When something fails"). */
export function reconcileFailureOf(error: unknown, o: ReconcileFailureOptions): ReconcileFailure {
  const failure = failureOf(error);
  if (failure !== undefined) {
    const { reason, message, isStalled, retry, afterMs } = failure;
    const isLater = !isStalled && retry !== "connection";
    const next = isLater ? "later" : isStalled || afterMs === undefined ? "change" : { afterMs };
    const conditions = conditionsOfFailure(failure, o.previous, o.generation);
    return { reason, message, conditions, next, isStalled };
  }
  if (error instanceof KubeError) return failureOfKubernetes(error, o.previous);
  if (error instanceof LeadershipLostError) {
    // It is another process's to show.
    return { reason: error.name, message: error.message, conditions: undefined, next: "later", isStalled: false };
  }
  const message = `a fault of the operator: its log says more about the reconcile ${o.reconcileId}; it is tried again`;
  const conditions = shown({ reason: "InternalError", message }, "Reconciling", o.previous);
  return { reason: "InternalError", message, conditions, next: "later", isStalled: false };
}

function failureOfKubernetes(error: KubeError, previous: readonly Condition[]): ReconcileFailure {
  const { reason, message } = error;
  if (isRefusedObject(error)) return stalled("ObjectRefused", withoutValues(error), previous);
  if (error.isForbidden && !error.isNamespaceTerminating) {
    return stalled("MissingPermission", message, previous);
  }
  // Another client wrote first, or the server is away: no fault of the resource.
  return { reason, message, conditions: undefined, next: "later", isStalled: false };
}

/** Of a refusal that is none of rights: the advice that every forbidden request carries would mislead. */
const ABOUT_RIGHTS = / \(give the operator's service account this right\)$/;

/** How a quota refuses, which holds nothing but names and amounts. */
const OF_QUOTA = /is forbidden: (exceeded quota: [\w.-]+(?:, (?:requested|used|limited): [\w./=-]+(?:,[\w./=-]+)*)+)/;

/** Messages about a Secret may show what is in it. */
function withoutValues({ message, status, reason, causes }: KubeError): string {
  if (!/\/secrets(\/|\?|:| |$)/.test(message)) return message.replace(ABOUT_RIGHTS, "");
  const shown = OF_QUOTA.exec(message)?.[1] ?? causes.flatMap(({ field }) => field ?? []).join(", ");
  return `the API server refuses a Secret: ${status} ${reason}${shown === "" ? "" : ` (${shown})`}`;
}

function stalled(reason: string, message: string, previous: readonly Condition[]): ReconcileFailure {
  const conditions = shown({ reason, message }, "Stalled", previous);
  return { reason, message, conditions, next: "later", isStalled: true };
}

/** `Synced` stays what it was: nothing was learned about it, and it says whether the entity is ours. */
function shown(
  what: { readonly reason: string; readonly message: string },
  more: "Reconciling" | "Stalled",
  previous: readonly Condition[],
): ConditionDraft[] {
  return [...kept(previous), { type: "Ready", status: "False", ...what }, { type: more, status: "True", ...what }];
}
