import { isDeepStrictEqual } from "node:util";
import { type ConditionDraft, nextConditions } from "../kube/conditions.ts";
import { ANNOTATIONS } from "../resources/group.ts";
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
