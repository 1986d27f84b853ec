import { ANNOTATIONS, type EdgeRouterResource, type RouterStatus } from "@sallyport/resources";
import type { IsThere } from "../../children/intent.ts";
import { isRolledOut, isRunning } from "../../children/workload.ts";
import type { EventNote } from "../../kube/events/recorder.ts";
import { KINDS, type KubeObject, type ResourceKind } from "../../kube/kinds.ts";
import { advertisedIp, routerConditions } from "./plan/conditions.ts";
import { reEnrollRequest } from "./plan/enrollment.ts";
import {
  certificateOf,
  isInitialized,
  isOnline,
  type ObservedRouter,
  type RouterAction,
  type RouterPlan,
  type RouterPlanInput,
  templateHash,
} from "./plan/router-plan.ts";
import {
  applyUnlessThere,
  conflictsOf,
  deletion,
  isFormer,
  type RouterStep,
  routerStep,
  surplusActions,
} from "./plan/step.ts";
import { CONTAINERS, entityName } from "./render/names.ts";
import { disruptionBudget, headlessService, networkPolicy, serviceAccount, serviceMonitor } from "./render/objects.ts";
import { specProblems } from "./render/router-config.ts";

/** Look again: while something is on its way, after that, and when it takes long. The network tells nothing by itself. */
const SOON_MS = 1_000;
const LATER_MS = 15_000;
const CALM_MS = 30_000;
/** So long after its pod was made a router may be expected at any moment. */
const STARTING_MS = 5 * 60_000;

/**
 * What is to be done for an EdgeRouter, from what is there (docs/operator/edge-router.md). Carried out and asked again, as often as it takes, it comes
 * to no actions.
 */
export function planEdgeRouter(input: RouterPlanInput): RouterPlan {
  const { resource, routers, surplus, shared } = input;
  const request = reEnrollRequest(resource);
  const steps = routers.map((router) => {
    const isRequested = request.state === "wanted" && request.ordinal === router.ordinal;
    return routerStep(input, router, isRequested, isRequested ? request.value : undefined);
  });
  const common = sharedActions(resource, shared, input.isThere);
  const problems = specProblems(resource, input.controllers);
  const isRefused = problems.length > 0;
  const outdated = steps.filter(({ rollout }) => rollout.length > 0);
  const turn = isRefused ? new Set<number>() : turnOf(steps, resource.spec.updateStrategy.maxUnavailable);
  const rolled = steps.filter(({ router }) => turn.has(router.ordinal));
  const statuses = steps.map((step) => statusOf(step, turn.has(step.router.ordinal)));
  const going = surplus.map(surplusStatus);
  // Of a spec that can't be followed as a whole nothing is.
  const actions = isRefused
    ? []
    : [
        ...common.actions,
        ...steps.flatMap((step) => step.actions),
        ...rolled.flatMap(({ rollout }) => rollout),
        ...surplusActions(resource, surplus),
      ];
  const isRestarted = outdated.length === 0 && steps.every(({ configHash }) => configHash !== undefined);
  const restart = resource.metadata.annotations?.[ANNOTATIONS.restart];
  const conditions = routerConditions({
    resource,
    now: input.now,
    problems,
    steps,
    routers: statuses,
    surplus,
    outdated: outdated.map(({ router }) => router.ordinal),
    conflicts: common.conflicts,
  });
  const isStalled = conditions.some(({ type }) => type === "Stalled") && actions.length === 0;
  return {
    actions,
    routers: [...statuses, ...going],
    conditions,
    events: [
      ...steps.flatMap((step) => eventsOf(resource, step, turn.has(step.router.ordinal))),
      ...(request.state === "wrong" ? [warning("ReEnrollRefused", "Enroll", request.message)] : []),
    ],
    requeueAfterMs: isStalled ? LATER_MS : nextReconcileMs(input, steps, actions),
    changing: steps.filter(({ isChanging }) => isChanging).map(({ router }) => router.ordinal),
    replicas: [
      ...routers,
      ...surplus.map(({ objects }) => ({ statefulSet: objects.find(({ kind }) => kind === "StatefulSet") })),
    ].filter(({ statefulSet }) => statefulSet !== undefined).length,
    readyReplicas: routers.filter(({ statefulSet }) => (statefulSet?.status?.readyReplicas ?? 0) > 0).length,
    onlineReplicas: routers.filter(isOnline).length,
    lastHandledReEnroll: request.state === "wrong" ? request.value : resource.status.lastHandledReEnroll,
    lastHandledRestart: isRestarted ? restart : resource.status.lastHandledRestart,
  };
}

function turnOf(steps: readonly RouterStep[], maxUnavailable: number): ReadonlySet<number> {
  const facts = steps.map(({ router, rollout, isAvailable, isSettled }) => ({
    ordinal: router.ordinal,
    exists: router.statefulSet !== undefined,
    isOutdated: rollout.length > 0,
    isServing: router.statefulSet !== undefined && isRolledOut(router.statefulSet),
    isAvailable,
    isSettled,
  }));
  return rolloutTurn(facts, maxUnavailable);
}

/** Objects of all routers together. */
function sharedActions(
  resource: EdgeRouterResource,
  found: ReadonlyMap<string, KubeObject>,
  isThere: IsThere,
): { actions: RouterAction[]; conflicts: string[] } {
  const { name } = resource.metadata;
  const wanted: [ResourceKind, KubeObject | undefined][] = [
    [KINDS.ServiceAccount, serviceAccount(resource)],
    [KINDS.Service, headlessService(resource)],
    [KINDS.PodDisruptionBudget, disruptionBudget(resource)],
    [KINDS.NetworkPolicy, networkPolicy(resource)],
    [KINDS.ServiceMonitor, serviceMonitor(resource)],
  ];
  const actions: RouterAction[] = [];
  const conflicts: string[] = [];
  for (const [kind, object] of wanted) {
    const there = found.get(`${kind.kind}/${name}`);
    const foreign = conflictsOf(resource, [there]);
    if (isFormer(resource, there)) actions.push(deletion(kind, there));
    else if (object === undefined) {
      if (there !== undefined && foreign.length === 0) actions.push(deletion(kind, there));
    } else if (foreign.length > 0) conflicts.push(...foreign);
    else actions.push(...applyUnlessThere(object, there, isThere));
  }
  return { actions, conflicts };
}

function statusOf({ router, advertised, configHash, enrollment }: RouterStep, isTurn: boolean): RouterStatus {
  const { ordinal, before, entity, pod, claim, statefulSet } = router;
  if (entity.state !== "synced") return before ?? { ordinal };
  const { found } = entity;
  const online = isOnline(router);
  const verified = found.isVerified === true;
  const notAfter = verified ? certificateOf(found.certPem)?.notAfter : undefined;
  // Until it is its turn the pod goes on with the file that it has.
  const isCurrent = isTurn || (statefulSet !== undefined && templateHash(statefulSet) === configHash);
  const address = isCurrent ? advertised : before?.advertiseAddress;
  const hash = pod?.metadata.annotations?.[ANNOTATIONS.configHash];
  // Online alone may still be the pod before: its successor shows by its first container that the volume has the identity.
  const volume = (online && isInitialized(pod) ? claim?.metadata.uid : undefined) ?? before?.volume;
  const version = found.versionInfo?.version || before?.version;
  const expires = enrollment?.step === "token" ? found.enrollmentExpiresAt : undefined;
  return {
    ordinal,
    name: found.name,
    id: found.id,
    verified,
    online,
    everOnline: online || (before?.everOnline ?? verified),
    syncStatus: found.syncStatus,
    version,
    advertiseAddress: address,
    certificateNotAfter: notAfter?.toISOString(),
    configHash: hash,
    volume,
    tokenExpiresAt: expires,
  };
}

const surplusStatus = ({ ordinal, before, entity }: RouterPlanInput["surplus"][number]): RouterStatus => ({
  ...before,
  ordinal,
  ...(entity === undefined ? {} : { id: entity.id, name: entity.name }),
});

const normal = (reason: string, action: string, note: string): EventNote => ({ type: "Normal", reason, action, note });
const warning = (reason: string, action: string, note: string): EventNote => ({
  type: "Warning",
  reason,
  action,
  note,
});

/** What happened since the status was written. */
function eventsOf(resource: EdgeRouterResource, step: RouterStep, isTurn: boolean): EventNote[] {
  const { router, enrollment, rollout } = step;
  const { before, entity, ordinal } = router;
  if (entity.state !== "synced") return [];
  const name = entityName(resource, ordinal);
  const events: EventNote[] = [];
  if (entity.found.isVerified === true && before?.verified === false) {
    events.push(normal("RouterVerified", "Enroll", `router ${name} completed its enrollment`));
  }
  if (isOnline(router) && before?.online !== true)
    events.push(normal("RouterOnline", "Connect", `router ${name} is online`));
  if (!isOnline(router) && before?.online === true) {
    events.push(warning("RouterOffline", "Connect", `router ${name} is not connected to a controller any more`));
  }
  if (enrollment?.step === "reEnroll") {
    const note = enrollment.reason === "TokenExpired" ? normal : warning;
    events.push(note("ReEnrolled", "Enroll", enrollment.message));
  }
  const restarts = rollout.some((action) => action.type === "apply" && action.object.kind === "StatefulSet");
  if (isTurn && restarts && router.statefulSet !== undefined && isRolledOut(router.statefulSet)) {
    events.push(normal("RolloutStarted", "Apply", `router ${name} is brought up to date`));
  }
  const ip = advertisedIp(resource, step);
  if (ip !== undefined && before?.advertiseAddress !== ip) {
    events.push(
      warning(
        "LoadBalancerIpAdvertised",
        "Apply",
        `router ${name} advertises ${ip}, which may change with its load balancer: set spec.exposure.hostname`,
      ),
    );
  }
  return events;
}

function nextReconcileMs(
  input: RouterPlanInput,
  steps: readonly RouterStep[],
  actions: readonly RouterAction[],
): number {
  if (actions.some(({ type }) => type === "reEnroll" || type === "removeEntity")) return 0;
  const isSettled = steps.every(
    ({ isAvailable, isChanging, rollout }) => isAvailable && !isChanging && rollout.length === 0,
  );
  // A volume grows when the cluster lets it.
  const isDone = actions.every(({ type }) => type === "growClaim");
  if (isSettled && isDone && input.surplus.length === 0) return CALM_MS;
  const isExpected = steps.some(({ router: { pod, blockedReason }, isAvailable, isSettled }) => {
    // The next one's turn comes with time alone.
    if (isAvailable && !isSettled) return true;
    // The watches tell when the cluster makes the pod, or gives it its volume.
    if (blockedReason !== undefined) return false;
    const age = pod === undefined ? 0 : input.now.getTime() - Date.parse(pod.metadata.creationTimestamp ?? "");
    return age < STARTING_MS;
  });
  return isExpected || input.surplus.length > 0 ? SOON_MS : LATER_MS;
}

/** What the order of a rollout depends on, for one router. */
interface RolloutFacts {
  readonly ordinal: number;
  /** There is nothing yet: it is made at once. */
  readonly exists: boolean;
  readonly isOutdated: boolean;
  /** A pod of its newest template is ready: it may carry circuits, also while no controller has it. */
  readonly isServing: boolean;
  /** It serves, and the network has it and its data model is there. */
  readonly isAvailable: boolean;
  /** It has been ready for a while: who was sent away from it is back. */
  readonly isSettled: boolean;
}

/**
 * Which routers may be brought up to date now. One whose pod is not ready, or goes anyway, costs nothing. Of those that serve, one that no controller has comes first, since a
 * change may fix it; but never more of them than may be away at a time: when a controller was restarted all routers are without it for a moment, and
 * carry on. One that is there for the network, too, waits until as few are away as may be; one that is back for a moment only still counts as away, but for itself. A router that does not
 * come back so keeps the next ones from being touched.
 */
export function rolloutTurn(routers: readonly RolloutFacts[], maxUnavailable: number): ReadonlySet<number> {
  const there = routers.filter(({ exists }) => exists);
  const down = there.filter(({ isServing }) => !isServing).length;
  const away = there.filter(({ isAvailable, isSettled }) => !isAvailable || !isSettled).length;
  const outdated = routers.filter(({ isOutdated }) => isOutdated);
  const free = outdated.filter(({ exists, isServing }) => !exists || !isServing);
  const serving = outdated.filter(({ exists, isServing }) => exists && isServing);
  const lost = serving.filter(({ isAvailable }) => !isAvailable).slice(0, Math.max(0, maxUnavailable - down));
  const again = away > maxUnavailable ? [] : serving.filter((each) => each.isAvailable && !each.isSettled);
  const next = serving
    .filter((each) => each.isAvailable && each.isSettled)
    .slice(0, Math.max(0, maxUnavailable - away));
  return new Set([...free, ...lost, ...again, ...next].map(({ ordinal }) => ordinal));
}

/** What is there of a router whose network can't be asked. Undefined for one that the network was never seen to have. */
export function asKnownFrom(
  before: RouterStatus | undefined,
  observed: Omit<ObservedRouter, "entity" | "before" | "secret">,
): ObservedRouter | undefined {
  if (before?.id === undefined) return undefined;
  const { id, name = "" } = before;
  // Taken for enrolled and there: nothing is decided about its enrollment, and what Kubernetes says of its pod is what counts.
  const found = { id, name, isVerified: true, isOnline: true, syncStatus: "SYNC_DONE" };
  return { ...observed, before, entity: { state: "synced", found } };
}

/**
 * What of an EdgeRouter is put back while its network can't be asked (docs/operator/edge-router.md, "Without the network"): objects that are missing or were
 * changed, as the spec wants them. A router whose program runs is left alone: it may serve, ready or not, and the state of the others is unknown. Nothing is
 * deleted, enrolled, or moved to another address.
 */
export function repairActions(input: Omit<RouterPlanInput, "surplus">): RouterAction[] {
  const { resource, routers, shared, isThere } = input;
  if (specProblems(resource, input.controllers).length > 0) return [];
  const own = routers.flatMap((router) => {
    const { actions, rollout, configHash } = routerStep({ ...input, surplus: [] }, router, false);
    const { statefulSet, pod } = router;
    const isAway = statefulSet === undefined || (!isRolledOut(statefulSet) && !isRunning(pod, CONTAINERS.router));
    if (isAway) return [...actions, ...rollout];
    const isSameFile = configHash !== undefined && templateHash(statefulSet) === configHash;
    return [...actions, ...(isSameFile ? rollout.filter((each) => isApply(each, "ConfigMap")) : [])];
  });
  return [...sharedActions(resource, shared, isThere).actions, ...own].filter((each) => isApply(each));
}

const isApply = (action: RouterAction, kind?: string): boolean =>
  action.type === "apply" && (kind === undefined || action.object.kind === kind);

/** Whether there is anything in the cluster that could be put back. */
export const hasRouters = ({ status }: EdgeRouterResource): boolean =>
  status.routers?.some(({ id }) => id !== undefined) === true;
