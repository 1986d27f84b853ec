import { isDeepStrictEqual } from "node:util";
import { conditionOf } from "../kube/conditions.ts";
import type { BaseStatus } from "../resources/condition.ts";
import type { Resource } from "../resources/kind-definition.ts";

type Looked = Resource<object, BaseStatus>;

/**
 * Whether a change of a resource is one that its own reconcile has to look at: everything but its status, which we write. A status that
 * another client changed counts, too: `isOwn` tells those apart.
 */
export function concernsItself(previous: Looked | undefined, next: Looked, isOwn: boolean): boolean {
  if (previous === undefined) return true;
  const [before, after] = [previous.metadata, next.metadata];
  if (before.generation !== after.generation || before.deletionTimestamp !== after.deletionTimestamp) return true;
  if (!isDeepStrictEqual(before.annotations, after.annotations)) return true;
  if (!isDeepStrictEqual(before.finalizers, after.finalizers)) return !isOwn;
  return !isOwn && !isDeepStrictEqual(previous.status, next.status);
}

/** Whether a change of a resource matters to those that refer to it: that it goes, its ids in the network, and of a Network whether it can be used. */
export function concernsReferrers(previous: Looked | undefined, next: Looked): boolean {
  if (previous === undefined) return true;
  if (previous.metadata.deletionTimestamp !== next.metadata.deletionTimestamp) return true;
  if (next.kind === "Network") {
    return previous.metadata.generation !== next.metadata.generation || readyOf(previous) !== readyOf(next);
  }
  return !isDeepStrictEqual(idsOf(previous), idsOf(next));
}

function readyOf({ status }: Looked): string {
  const ready = conditionOf(status.conditions, "Ready");
  return `${ready?.status} ${ready?.reason}`;
}

function idsOf({ status }: Looked): readonly (string | undefined)[] {
  const { id, routers = [] } = status as { id?: string; routers?: readonly { id?: string }[] };
  return [id, ...routers.map((router) => router.id)];
}
