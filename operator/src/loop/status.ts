import { isDeepStrictEqual } from "node:util";
import { ANNOTATIONS } from "@sallyport/resources";
import type { Failure } from "../controller-client/errors.ts";
import { type Condition, type ConditionDraft, conditionOf, draftOf, nextConditions } from "../kube/conditions.ts";
import type { AnyResource, OwnStatus } from "./kind-reconciler.ts";

/** What a status shall be. */
interface StatusDraft<R extends AnyResource> {
  readonly conditions: readonly ConditionDraft[];
  readonly own: OwnStatus<R>;
  /** False: the spec was not acted on, so the status goes on telling which one was. */
  readonly isObserved: boolean;
}

/** The whole status, as it is applied. */
export function nextStatus<R extends AnyResource>(resource: R, draft: StatusDraft<R>, now: Date): R["status"] {
  const { metadata, status } = resource;
  const seen = draft.isObserved ? metadata.generation : status.observedGeneration;
  const asked = metadata.annotations?.[ANNOTATIONS.reconcile];
  const handled = draft.isObserved && asked !== undefined ? asked.slice(0, 256) : status.lastHandledReconcileAt;
  return withoutUndefined({
    ...draft.own,
    observedGeneration: seen,
    conditions: nextConditions(status.conditions ?? [], draft.conditions, seen === -1 ? undefined : seen, now),
    lastHandledReconcileAt: handled,
  });
}

/** The fields that the kind decides, of a status as it is. */
export function ownStatus<R extends AnyResource>({ status }: R): OwnStatus<R> {
  const { observedGeneration, conditions, lastHandledReconcileAt, ...own } = status;
  return own as OwnStatus<R>;
}

/** Same status: conditions by their types, since they are a map; everything else as it is written. */
export function sameStatus(left: AnyResource["status"], right: AnyResource["status"]): boolean {
  const shape = ({ conditions = [], ...rest }: AnyResource["status"]) => ({
    ...withoutUndefined(rest),
    conditions: Object.fromEntries(conditions.map((condition) => [condition.type, withoutUndefined(condition)])),
  });
  return isDeepStrictEqual(shape(left), shape(right));
}

/** As JSON carries it. */
function withoutUndefined<T extends object>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/** Reason of `Synced` while a resource only looks at its entity. */
export const OBSERVED = "Observed";

type ConditionOutcome = Omit<ConditionDraft, "type">;

/** `Synced` and `Ready`, and `Reconciling` or `Stalled` with the outcome of `Ready`. */
export const entityConditions = (
  synced: ConditionOutcome,
  ready: ConditionOutcome,
  more?: "Reconciling" | "Stalled",
): ConditionDraft[] => [
  { type: "Synced", ...synced },
  { type: "Ready", ...ready },
  ...(more === undefined ? [] : [{ type: more, ...ready, status: "True" as const }]),
];

/** The entity is not as wanted yet: `Reconciling` when that passes, `Stalled` when a person has to act. */
export function unready(reason: string, message: string, more: "Reconciling" | "Stalled"): ConditionDraft[] {
  const outcome = { status: "False", reason, message } as const;
  return entityConditions(outcome, outcome, more);
}

/** Whether what `status.id` names was only looked at when the status was written: then it is not ours by that. */
export const wasObserved = (conditions: readonly Condition[] | undefined): boolean =>
  conditionOf(conditions, "Synced")?.reason === OBSERVED;

/** Reason of `Synced` beside a refusal: that the entity was only looked at must not be forgotten, else its id would count as ours. */
export const syncedReason = (previous: readonly Condition[] | undefined, reason: string): string =>
  wasObserved(previous) ? OBSERVED : reason;

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
    return previous.map(draftOf);
  }
  const conditions = unready(reason, message, isStalled ? "Stalled" : "Reconciling");
  return conditions.map((draft) =>
    draft.type === "Synced" ? { ...draft, reason: syncedReason(previous, draft.reason) } : draft,
  );
}

const PAUSED = "ReconciliationPaused";

const SUMMARY = new Set(["Ready", "Reconciling", "Stalled", "DeletionBlocked", PAUSED]);

/** The conditions that say something else than how the resource as a whole is. */
export const kept = (previous: readonly Condition[]): ConditionDraft[] =>
  previous.filter(({ type }) => !SUMMARY.has(type)).map(draftOf);

/** What a resource shows whose deletion has to wait, with the way out. */
export function conditionsOfBlocked(
  resource: AnyResource,
  { reason, message }: { readonly reason: string; readonly message: string },
  previous: readonly Condition[],
): ConditionDraft[] {
  const remedy = `to delete the resource and leave what it has in the network there: kubectl annotate ${resource.kind.toLowerCase()} ${resource.metadata.name} -n ${resource.metadata.namespace} ${ANNOTATIONS.forceOrphan}=true`;
  const text = `${message}; ${remedy}`;
  return [
    ...kept(previous),
    { type: "Ready", status: "False", reason: "DeletionBlocked", message: text },
    { type: "DeletionBlocked", status: "True", reason, message: text },
  ];
}

export const isPaused = ({ metadata }: AnyResource): boolean => metadata.annotations?.[ANNOTATIONS.pause] === "true";

/** Everything stays as it was found last, and one more condition says that the operator does not reconcile it. */
export function conditionsOfPause(previous: readonly Condition[]): ConditionDraft[] {
  const before = previous.filter(({ type }) => type !== PAUSED).map(draftOf);
  const message = `the annotation ${ANNOTATIONS.pause} keeps the operator from changing anything; take it away to go on`;
  const unknown: ConditionDraft = { type: "Ready", status: "Unknown", reason: "Paused", message };
  const first = before.some(({ type }) => type === "Ready") ? before : [unknown, ...before];
  return [...first, { type: PAUSED, status: "True", reason: "Annotated", message }];
}

/** What a person has to fix, although the operator goes on by itself after the fix, so that it is not `Stalled`. */
const TO_FIX = new Set([
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

/** `Warning` for what a person should look at, `Normal` for what is on its way: decides which of them `kubectl events --types=Warning` shows. */
export function eventTypeOf(conditions: readonly ConditionDraft[]): "Normal" | "Warning" {
  const needsPerson = conditions.some(({ type, status, reason }) =>
    type === "Ready" ? status === "False" && TO_FIX.has(reason) : type === "Stalled" || type === "DeletionBlocked",
  );
  return needsPerson ? "Warning" : "Normal";
}
