import { KINDS, type KubeObject } from "../../../kube/kinds.ts";
import type { EdgeRouterResource } from "../schema.ts";
import type { Leftover, RouterAction } from "./router-plan.ts";
import { conflictsOf, deletion, isKind, kindOf } from "./step.ts";

/**
 * The next steps of the routers that are to go: the highest first, as many at a time as may be away at all. Circuits are first led around a router, then
 * its pod ends, which empties it; only when the pod is gone its entity goes, and what else there is of it.
 */
export function leftoverActions(resource: EdgeRouterResource, leftovers: readonly Leftover[]): RouterAction[] {
  const { deletionTimestamp } = resource.metadata;
  const atATime = deletionTimestamp === undefined ? resource.spec.updateStrategy.maxUnavailable : leftovers.length;
  return leftovers
    .toSorted((a, b) => b.ordinal - a.ordinal)
    .slice(0, atATime)
    .flatMap((leftover) => stepOf(resource, leftover));
}

/**
 * What of a router that is to go is the resource's. A workload that is not, such as one that `kubectl delete --cascade=orphan` has left behind, stays, and its pod
 * and volume with it.
 */
export function ownPartOf(resource: EdgeRouterResource, leftover: Leftover): Leftover {
  const isOwn = (object: KubeObject): boolean => conflictsOf(resource, [object]).length === 0;
  const objects = leftover.objects.filter(isOwn);
  const isRunByOthers = leftover.objects.some((object) => isKind(object, KINDS.StatefulSet) && !isOwn(object));
  return { ...leftover, objects, ...(isRunByOthers ? { pod: undefined, claim: undefined } : {}) };
}

/** Volumes that outlive their routers: what stays in the network keeps the key that it is known by. */
export function keepsVolumes(resource: EdgeRouterResource): boolean {
  return resource.spec.storage.retention === "Retain" || isLetGo(resource);
}

function isLetGo({ spec }: EdgeRouterResource): boolean {
  return spec.deletionPolicy === "Orphan" || spec.managementPolicy === "Observe";
}

function stepOf(resource: EdgeRouterResource, leftover: Leftover): RouterAction[] {
  const { ordinal, entity, objects, pod, claim } = ownPartOf(resource, leftover);
  const workload = objects.find((object) => isKind(object, KINDS.StatefulSet));
  if (workload !== undefined) {
    const around: RouterAction[] =
      entity === undefined || entity.noTraversal || isLetGo(resource)
        ? []
        : [{ type: "stopTraversal", ordinal, id: entity.id }];
    return [...around, deletion(KINDS.StatefulSet, workload)];
  }
  if (pod !== undefined) return [];
  if (entity !== undefined) return [{ type: "removeEntity", ordinal }];
  const rest = objects.map((object) => deletion(kindOf(object), object));
  return claim === undefined || keepsVolumes(resource) ? rest : [...rest, deletion(KINDS.PersistentVolumeClaim, claim)];
}
