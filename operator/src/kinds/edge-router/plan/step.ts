import { ANNOTATIONS, API_VERSION, amountOf, type EdgeRouterResource } from "@sallyport/resources";
import { type IsThere, withIntent } from "../../../children/intent.ts";
import { type FoundStatefulSet, isReadyFor, isRolledOut } from "../../../children/workload.ts";
import { apiVersionOf, KINDS, type KubeObject, type ObjectMeta, type ResourceKind } from "../../../kube/kinds.ts";
import type { Controllers } from "../../network/interface.ts";
import { type AddressResult, addressOf, addressText, nextAdvertised } from "../render/address.ts";
import { claimName, type RenderedResource } from "../render/names.ts";
import { edgeService, edgeServiceOfBoth } from "../render/objects.ts";
import { type RenderedConfig, renderRouterConfig, type SpecProblem } from "../render/router-config.ts";
import { configMap, enrollmentSecret, statefulSet } from "../render/workload.ts";
import { type EnrollmentStep, enrollmentStep } from "./enrollment.ts";
import {
  certificateOf,
  isInitialized,
  isOnline,
  isVerified,
  type ObservedRouter,
  type RouterAction,
  type RouterPlanInput,
  type SurplusRouter,
  templateHash,
} from "./router-plan.ts";

/** What one router needs, before it is decided whose turn it is. */
export interface RouterStep {
  readonly router: ObservedRouter;
  readonly enrollment?: EnrollmentStep;
  readonly address?: AddressResult;
  /** `<host>:<port>` of the file that was rendered. */
  readonly advertised?: string | undefined;
  /** The address is on its way: the certificate gets the new name first. */
  readonly isChanging: boolean;
  readonly problems: readonly SpecProblem[];
  /** Objects of other owners under names that ours need. */
  readonly conflicts: readonly string[];
  readonly configHash?: string;
  /** What may be done at once. */
  readonly actions: readonly RouterAction[];
  /** What restarts the pod: when it is this router's turn. */
  readonly rollout: readonly RouterAction[];
  readonly isAvailable: boolean;
  /** It has been ready for as long as the spec wants. */
  readonly isSettled: boolean;
}

const SYNCED = "SYNC_DONE";

/** @param isRequested the annotation asks for a new enrollment of this router */
export function routerStep(
  input: RouterPlanInput,
  router: ObservedRouter,
  isRequested: boolean,
  handled?: string,
): RouterStep {
  const { resource, now } = input;
  const { entity, ordinal } = router;
  const found = [router.service, router.configMap, router.secret, router.statefulSet];
  const former = found.flatMap((object) => (isFormer(resource, object) ? [deletion(kindOf(object), object)] : []));
  const conflicts = former.length > 0 ? [] : conflictsOf(resource, found);
  const isAvailable =
    router.statefulSet !== undefined &&
    isRolledOut(router.statefulSet) &&
    isOnline(router) &&
    entity.state === "synced" &&
    entity.found.syncStatus === SYNCED;
  const isSettled = isReadyFor(router.pod, resource.spec.updateStrategy.minReadySeconds, now);
  const readiness = { isAvailable, isSettled };
  const nothing = { router, isChanging: false, problems: [], conflicts, actions: [], rollout: [], ...readiness };
  if (former.length > 0) return { ...nothing, actions: former };
  if (entity.state !== "synced" || conflicts.length > 0) return nothing;

  const enrollment = enrollmentStep(router, isRequested, now);
  const actionsOf = (hasArrived: boolean): RouterAction[] => [
    ...enrollmentActions(input, router, enrollment, handled),
    ...serviceActions(input, router, hasArrived),
    ...claimActions(resource, router),
  ];
  const actions = actionsOf(false);
  const address = addressOf(resource, ordinal, router.service);
  if (address.state === "waiting") return { ...nothing, enrollment, address, actions };

  const next =
    address.state === "none"
      ? undefined
      : nextAdvertised(address.address, router.before?.advertiseAddress, knownNames(router));
  const config = renderRouterConfig(resource, {
    ordinal,
    address: next?.address,
    hosts: next?.hosts ?? [],
    controllers: input.controllers,
  });
  const isChanging = next?.isChanging ?? false;
  const step = { ...nothing, enrollment, address, actions, isChanging };
  if ("problems" in config) return { ...step, problems: config.problems };
  const hasArrived =
    isAvailable && !isChanging && router.statefulSet && templateHash(router.statefulSet) === config.hash;
  return {
    ...step,
    actions: hasArrived === true ? actionsOf(true) : actions,
    configHash: config.hash,
    advertised: next && addressText(next.address),
    rollout: rolloutActions(input, router, config, entity.found.id),
  };
}

/** Hosts that clients may dial it by: those of its certificates. Undefined while it has none. */
function knownNames(router: ObservedRouter): readonly string[] | undefined {
  if (!isVerified(router) || router.entity.state !== "synced") return undefined;
  return [...(certificateOf(router.entity.found.certPem)?.names ?? []), ...(router.servedNames ?? [])];
}

function enrollmentActions(
  { resource, isThere }: RouterPlanInput,
  { ordinal, entity, secret, pod }: ObservedRouter,
  enrollment: EnrollmentStep,
  handled: string | undefined,
): RouterAction[] {
  if (entity.state !== "synced") return [];
  switch (enrollment.step) {
    case "reEnroll":
      return [
        {
          ...{ type: "reEnroll", ordinal, id: entity.found.id },
          handled,
          unlessVerified: enrollment.reason === "TokenExpired",
        },
      ];
    case "token": {
      const applied = applyUnlessThere(enrollmentSecret(resource, ordinal, enrollment.jwt), secret, isThere);
      // A Secret that is newer than the pod is what tells that the pod has used another token.
      if (applied.length > 0 && secret !== undefined && isInitialized(pod)) return [deletion(KINDS.Secret, secret)];
      if (applied.length > 0 || !enrollment.restartsPod || pod === undefined) return applied;
      return [deletion(KINDS.Pod, pod)];
    }
    default:
      return secret === undefined ? [] : [deletion(KINDS.Secret, secret)];
  }
}

/** @param hasArrived the router runs and is reached under the address of the spec: what only the former one needed goes */
function serviceActions(
  { resource, isThere }: RouterPlanInput,
  { ordinal, service }: ObservedRouter,
  hasArrived: boolean,
): RouterAction[] {
  const wanted =
    hasArrived || service === undefined
      ? edgeService(resource, ordinal)
      : edgeServiceOfBoth(resource, ordinal, service);
  if (wanted !== undefined) return applyUnlessThere(wanted, service, isThere);
  return service === undefined || !hasArrived ? [] : [deletion(KINDS.Service, service)];
}

function claimActions({ spec, metadata }: RenderedResource, { ordinal, claim }: ObservedRouter): RouterAction[] {
  const there = amountOf(claim?.spec?.resources?.requests?.storage);
  const wanted = amountOf(spec.storage.size);
  if (there === undefined || wanted === undefined || wanted <= there) return [];
  return [{ type: "growClaim", name: claimName(metadata.name, ordinal), size: spec.storage.size }];
}

function rolloutActions(
  { resource, image, controllers, isThere }: RouterPlanInput,
  router: ObservedRouter,
  config: Extract<RenderedConfig, { text: string }>,
  id: string,
): RouterAction[] {
  const { ordinal, statefulSet } = router;
  const workload = workloadOf(resource, { ordinal, id, configHash: config.hash, image, controllers, statefulSet });
  return [
    ...applyUnlessThere(configMap(resource, ordinal, config.text), router.configMap, isThere),
    ...applyUnlessThere(workload, statefulSet, isThere),
  ];
}

/** What a StatefulSet is made from besides the spec; `statefulSet` is the one that there is. */
interface WorkloadParts {
  readonly ordinal: number;
  readonly id: string;
  readonly configHash: string;
  /** Where the spec names none. */
  readonly image: string;
  readonly controllers: Controllers;
  readonly statefulSet: FoundStatefulSet | undefined;
}

/** The StatefulSet as it is wanted: its selector and its claim stay what they were made with, since these can't be changed. */
export function workloadOf(resource: RenderedResource, parts: WorkloadParts): KubeObject {
  const { ordinal, id, configHash, image, controllers, statefulSet: found } = parts;
  const claim = found?.spec?.volumeClaimTemplates?.[0];
  const there = claim?.spec?.resources?.requests?.storage;
  const isSameSize = there === undefined || amountOf(there) === amountOf(resource.spec.storage.size);
  return statefulSet(resource, {
    ordinal,
    id,
    configHash,
    image: resource.spec.image ?? image,
    areControllersChosen: controllers.areChosen,
    restart: resource.metadata.annotations?.[ANNOTATIONS.restart],
    made: {
      selector: found?.spec?.selector?.matchLabels,
      claimMetadata: claim?.metadata && claimMetadataOf(claim.metadata),
      claimSize: isSameSize ? undefined : there,
    },
  });
}

/** Servers say a time of creation that is none. */
const claimMetadataOf = ({ name, labels, annotations }: ObjectMeta) => ({ name, labels, annotations });

export function applyUnlessThere(object: KubeObject, found: KubeObject | undefined, isThere: IsThere): RouterAction[] {
  const intended = withIntent(object);
  return isThere(found, intended) ? [] : [{ type: "apply", object: intended }];
}

export function deletion(kind: ResourceKind, { metadata }: KubeObject): RouterAction {
  const { namespace, name, uid } = metadata;
  return { type: "delete", ref: { kind, name, namespace }, uid };
}

/** Objects of other owners, under names that ours need. */
export function conflictsOf({ metadata }: RenderedResource, found: readonly (KubeObject | undefined)[]): string[] {
  return found.flatMap((object) => {
    if (object === undefined) return [];
    const owner = object.metadata.ownerReferences?.find(({ controller }) => controller === true);
    if (owner?.uid === metadata.uid) return [];
    const whose = owner === undefined ? "has no owner" : `is owned by ${owner.kind} ${owner.name}`;
    return [`${object.kind} ${object.metadata.name} ${whose}`];
  });
}

/**
 * Whether an object is left of an EdgeRouter that had this name before, and is gone: a garbage collector would take it away sooner or later, also from
 * under the next owner.
 */
export function isFormer({ kind, metadata }: RenderedResource, object: KubeObject | undefined): object is KubeObject {
  const owner = object?.metadata.ownerReferences?.find(({ controller }) => controller === true);
  return (
    owner !== undefined &&
    owner.apiVersion === API_VERSION &&
    owner.kind === kind &&
    owner.name === metadata.name &&
    owner.uid !== metadata.uid
  );
}

const KINDS_OF_ROUTERS: readonly ResourceKind[] = [KINDS.StatefulSet, KINDS.Service, KINDS.ConfigMap, KINDS.Secret];

/** Kind of an object that belongs to one router. */
function kindOf(object: KubeObject): ResourceKind {
  const kind = KINDS_OF_ROUTERS.find((each) => isKind(object, each));
  if (kind === undefined) throw new TypeError(`a router has no object of the kind ${object.kind}`);
  return kind;
}

const isKind = ({ apiVersion, kind }: KubeObject, of: ResourceKind): boolean =>
  kind === of.kind && apiVersion === apiVersionOf(of);

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
