import { KINDS, type KubeObject } from "../../../kube/kinds.ts";
import type { EdgeRouterResource } from "../schema.ts";
import type { RouterAction, SurplusRouter } from "./router-plan.ts";
import { conflictsOf, deletion, isKind, kindOf } from "./step.ts";

/**
 * The next steps of the routers that are to go: the highest first, as many at a time as may be away at all. Circuits are first led around a router, then
 * its pod ends, which empties it; only when the pod is gone its entity goes, and what else there is of it.
 */
export function surplusActions(resource: EdgeRouterResource, surplus: readonly SurplusRouter[]): RouterAction[] {
  const { deletionTimestamp } = resource.metadata;
  const atATime = deletionTimestamp === undefined ? resource.spec.updateStrategy.maxUnavailable : surplus.length;
  return surplus
    .toSorted((a, b) => b.ordinal - a.ordinal)
    .slice(0, atATime)
    .flatMap((router) => stepOf(resource, router));
}

/**
 * What of a router that is to go is the resource's. A workload that is not, such as one that `kubectl delete --cascade=orphan` has left behind, stays, and its pod
 * and volume with it.
 */
export function ownPartOf(resource: EdgeRouterResource, router: SurplusRouter): SurplusRouter {
  const isOwn = (object: KubeObject): boolean => conflictsOf(resource, [object]).length === 0;
  const objects = router.objects.filter(isOwn);
  const isRunByOthers = router.objects.some((object) => isKind(object, KINDS.StatefulSet) && !isOwn(object));
  return { ...router, objects, ...(isRunByOthers ? { pod: undefined, claim: undefined } : {}) };
}

/** Volumes that outlive their routers: what stays in the network keeps the key that it is known by. */
export function keepsVolumes(resource: EdgeRouterResource): boolean {
  return resource.spec.storage.retention === "Retain" || isOrphaning(resource);
}

function isOrphaning({ spec }: EdgeRouterResource): boolean {
  return spec.deletionPolicy === "Orphan" || spec.managementPolicy === "Observe";
}

function stepOf(resource: EdgeRouterResource, router: SurplusRouter): RouterAction[] {
  const { ordinal, entity, objects, pod, claim } = ownPartOf(resource, router);
  const workload = objects.find((object) => isKind(object, KINDS.StatefulSet));
  if (workload !== undefined) {
    const around: RouterAction[] =
      entity === undefined || entity.noTraversal || isOrphaning(resource)
        ? []
        : [{ type: "stopTraversal", ordinal, id: entity.id }];
    return [...around, deletion(KINDS.StatefulSet, workload)];
  }
  if (pod !== undefined) return [];
  if (entity !== undefined) return [{ type: "removeEntity", ordinal }];
  const rest = objects.map((object) => deletion(kindOf(object), object));
  return claim === undefined || keepsVolumes(resource) ? rest : [...rest, deletion(KINDS.PersistentVolumeClaim, claim)];
}
