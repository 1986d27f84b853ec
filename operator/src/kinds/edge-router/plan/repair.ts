import { isRolledOut, isRunning } from "../../../children/workload.ts";
import { sharedActions } from "../plan.ts";
import { CONTAINERS } from "../render/names.ts";
import { specProblems } from "../render/router-config.ts";
import type { EdgeRouterResource, RouterStatus } from "../schema.ts";
import { type ObservedRouter, templateHash } from "./observed.ts";
import type { RouterAction, RouterPlanInput } from "./router-plan.ts";
import { routerStep } from "./step.ts";

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
