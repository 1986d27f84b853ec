import {
  type EdgeRouterResource,
  edgeRouter,
  edgeRouterKind,
  networkRefOf,
  type RouterStatus,
} from "@sallyport/resources";
import { dryRun, isUntried, markKept } from "../../children/apply.ts";
import type { FoundStatefulSet } from "../../children/workload.ts";
import { failureOf, NetworkNotReadyError } from "../../controller-client/errors.ts";
import type { UsableNetwork } from "../../controller-client/network-clients.ts";
import type { EventNote } from "../../kube/events/recorder.ts";
import { KINDS, type KubeObject } from "../../kube/kinds.ts";
import type { KindReconciler, Outcome, Removal } from "../../loop/kind-reconciler.ts";
import { type Controllers, controllersOf } from "../network/interface.ts";
import { observedConditions } from "./plan/conditions.ts";
import type { ObservedRouter, RouterPlan } from "./plan/router-plan.ts";
import { conflictsOf, isFormer, keepsVolumes, surplusActions, workloadOf } from "./plan/step.ts";
import { asKnownFrom, hasRouters, planEdgeRouter, repairActions } from "./plan.ts";
import { deleted, RemovalBlockedError, RouterActions } from "./reconcile/actions.ts";
import {
  ChildReader,
  type NameProbe,
  observeEntity,
  observeRouter,
  observeShared,
  observeSurplus,
  observeWorkload,
  type RouterContext,
  type SyncedRouter,
  servedNames,
  statusOfRouter,
  syncRouter,
} from "./reconcile/observe.ts";
import { edgeServiceName, entityName, healthPort, routerName, selectorText } from "./render/names.ts";
import { edgeService } from "./render/objects.ts";
import { specProblems } from "./render/router-config.ts";

interface EdgeRouterOptions {
  /** Image of routers whose resource names none. */
  readonly image: string;
  readonly probe?: NameProbe;
}

/** Kinds of the children that the watches know. */
const OWNED = [
  KINDS.StatefulSet,
  KINDS.Service,
  KINDS.ConfigMap,
  KINDS.Secret,
  KINDS.ServiceAccount,
  KINDS.PodDisruptionBudget,
  KINDS.NetworkPolicy,
  KINDS.Pod,
  KINDS.PersistentVolumeClaim,
];

/** By this finalizer the garbage collector takes the owner out of what is to stay. */
const ORPHANING = "orphan";

/** What one step makes possible is done at once, so many times; the rest follows at the next look. */
const PASSES = 5;
const GOING_MS = 1_000;
/** What came to nothing is not looked at sooner. */
const HELD_MS = 15_000;

/** The reconciler of EdgeRouters (docs/operator/edge-router.md). */
export function edgeRouterReconciler(o: EdgeRouterOptions): KindReconciler<EdgeRouterResource> {
  const reader = new ChildReader();
  const actions = new RouterActions(reader);
  const probe = o.probe ?? servedNames;

  async function reconcile(given: EdgeRouterResource, context: RouterContext): Promise<Outcome<EdgeRouterResource>> {
    try {
      return await bringInOrder(given, context);
    } catch (error) {
      context.signal.throwIfAborted();
      // That the network can't be asked is no reason to leave what runs in the cluster to itself.
      if (failureOf(error) !== undefined && isNetworkReconciled(given, error, context)) await repair(given, context);
      throw error;
    }
  }

  async function repair(resource: EdgeRouterResource, context: RouterContext): Promise<void> {
    if (resource.spec.managementPolicy === "Observe" || !hasRouters(resource)) return;
    const routers: ObservedRouter[] = [];
    for (let ordinal = 0; ordinal < resource.spec.replicas; ordinal++) {
      const there = await observeWorkload(resource, ordinal, context, reader);
      const router = asKnownFrom(statusOfRouter(resource, ordinal), there);
      if (router !== undefined) routers.push(router);
    }
    const due = repairActions({
      resource,
      now: context.now(),
      image: o.image,
      controllers: controllersOf(resource, context),
      routers,
      isThere: context.admissions.isThere,
      shared: await observeShared(resource, context, reader),
    });
    for (const action of due) if (action.type === "apply") await actions.apply(action.object, context);
    const names = due.flatMap((action) =>
      action.type === "apply" ? `${action.object.kind} ${action.object.metadata.name}` : [],
    );
    if (names.length === 0) return;
    const note = `put back while the network can't be asked: ${names.join(", ")}`;
    context.recordEvent({ type: "Normal", reason: "Repaired", action: "Apply", note });
  }

  async function bringInOrder(given: EdgeRouterResource, context: RouterContext): Promise<Outcome<EdgeRouterResource>> {
    const network = networkOf(given, context);
    if (given.spec.managementPolicy === "Observe") return await observeOnly(given, network, context);
    await dryRunRouter(given, { image: o.image, controllers: controllersOf(given, context) }, context, reader);
    for (const claim of context.known.childrenOf(KINDS.PersistentVolumeClaim, given)) {
      await markKept(KINDS.PersistentVolumeClaim, claim, { kind: given.kind, name: given.metadata.name }, context);
    }
    let resource = given;
    const events = new Map<string, EventNote>();
    for (let pass = 1; ; pass++) {
      const { plan, synced, at } = await planNow(resource, network, context);
      resource = at;
      const notes = synced.flatMap(({ result }) => result.notes.map((note) => ({ ...note, action: "Sync" })));
      for (const event of [...notes, ...plan.events]) events.set(event.note, event);
      const due = plan.actions.filter((action) => !actions.isPutOff(resource, action, context.now()));
      for (const action of due) resource = await actions.carryOut(resource, action, network, context);
      if (due.length === 0 || pass === PASSES) {
        const isHeld = plan.actions.some((action) => action.type === "reEnroll" && !due.includes(action));
        const requeueAfterMs = isHeld ? Math.max(plan.requeueAfterMs, HELD_MS) : plan.requeueAfterMs;
        return outcomeOf(resource, { ...plan, actions: due, requeueAfterMs }, [...events.values()], context);
      }
    }
  }

  /** Observes and plans; entities are in order then. */
  async function planNow(given: EdgeRouterResource, network: UsableNetwork, context: RouterContext) {
    let resource = given;
    const keep = async (router: RouterStatus): Promise<void> => {
      const others = (resource.status.routers ?? []).filter(({ ordinal }) => ordinal !== router.ordinal);
      resource = await context.keep({ routers: [...others, router].sort((a, b) => a.ordinal - b.ordinal) });
    };
    const controllers = controllersOf(resource, context);
    const isRefused = specProblems(resource, controllers).length > 0;
    const synced: SyncedRouter[] = [];
    for (let ordinal = 0; ordinal < resource.spec.replicas; ordinal++) {
      synced.push(
        isRefused
          ? await observeEntity(resource, ordinal, network, context)
          : await syncRouter(resource, ordinal, network, context, keep),
      );
    }
    const routers: ObservedRouter[] = [];
    for (const each of synced) routers.push(await observeRouter(resource, each, context, reader));
    const { metadata, status, spec } = resource;
    const isNew = status.observedGeneration !== metadata.generation;
    const input = {
      resource,
      now: context.now(),
      image: o.image,
      controllers,
      routers,
      surplus: await observeSurplus(resource, spec.replicas, network, context, isNew),
      shared: await observeShared(resource, context, reader),
      isThere: context.admissions.isThere,
    };
    const plan = planEdgeRouter(input);
    if (plan.changing.length === 0) return { plan, synced, at: resource };
    const asked = await Promise.all(routers.map((router) => withServedNames(resource, router, plan, context)));
    return { plan: planEdgeRouter({ ...input, routers: asked }), synced, at: resource };
  }

  async function withServedNames(
    { spec }: EdgeRouterResource,
    router: ObservedRouter,
    { changing }: RouterPlan,
    { signal }: RouterContext,
  ): Promise<ObservedRouter> {
    const address = router.pod?.status?.podIP;
    if (address === undefined || !changing.includes(router.ordinal)) return router;
    const port = spec.exposure.type === "None" ? healthPort(spec) : spec.edge.port;
    const names = await probe(address, port, signal);
    return names === undefined ? router : { ...router, servedNames: names };
  }

  async function remove(given: EdgeRouterResource, context: RouterContext): Promise<Removal> {
    if (given.metadata.finalizers?.includes(ORPHANING)) {
      const message = "its objects in the cluster are being made independent of it, as --cascade=orphan asks";
      return { state: "blocked", reason: "Orphaning", message, requeueAfterMs: GOING_MS };
    }
    const network = networkOf(given, context);
    const count = given.status.routers?.length ?? 0;
    let resource = given;
    for (let pass = 1; ; pass++) {
      const surplus = await observeSurplus(resource, 0, network, context, true);
      const [first] = surplus;
      if (first === undefined) {
        actions.forget(resource);
        return { state: "gone", events: [goneEvent(resource, count)] };
      }
      const due = surplusActions(resource, surplus);
      if (due.length === 0 || pass === PASSES) {
        const name = routerName(resource.metadata.name, first.ordinal);
        const message = `router ${name} is on its way out: its pod has up to ${resource.spec.drainSeconds} s for its circuits`;
        return { state: "blocked", reason: "Draining", message, requeueAfterMs: GOING_MS };
      }
      try {
        for (const action of due) resource = await actions.carryOut(resource, action, network, context);
      } catch (error) {
        if (!(error instanceof RemovalBlockedError)) throw error;
        return { state: "blocked", message: `the network refuses to delete a router: ${error.message}` };
      }
    }
  }

  /** The network is left as it is; what is in the cluster goes with its owner, but for the volumes. */
  async function abandon(resource: EdgeRouterResource, context: RouterContext): Promise<void> {
    actions.forget(resource);
    const { namespace } = resource.metadata;
    const kinds = keepsVolumes(resource) ? [KINDS.StatefulSet] : [KINDS.StatefulSet, KINDS.PersistentVolumeClaim];
    for (const kind of kinds) {
      for (const child of context.known.childrenOf(kind, resource)) {
        // A workload that a user has made independent of the resource stays.
        if (kind === KINDS.StatefulSet && conflictsOf(resource, [child]).length > 0) continue;
        const { name, uid } = child.metadata;
        await deleted(context, { kind, namespace, name }, uid);
      }
    }
  }

  const references = ({ spec }: EdgeRouterResource) => edgeRouter.references(spec);
  return { kind: edgeRouterKind, owns: OWNED, references, reconcile, remove, abandon };
}

const networkOf = (resource: EdgeRouterResource, { networks }: RouterContext): UsableNetwork =>
  networks.forNetwork(networkRefOf(resource));

/** False right after the operator's start, before the Network was reconciled. */
function isNetworkReconciled(resource: EdgeRouterResource, error: unknown, { known }: RouterContext): boolean {
  if (!(error instanceof NetworkNotReadyError) || error.reason !== "NetworkNotFound") return true;
  const { namespace, name } = networkRefOf(resource);
  return known.resource("Network", namespace, name) === undefined;
}

function outcomeOf(
  { metadata }: EdgeRouterResource,
  plan: RouterPlan,
  events: readonly EventNote[],
  context: RouterContext,
): Outcome<EdgeRouterResource> {
  const { namespace, name } = metadata;
  const ends = plan.routers.flatMap(({ certificateNotAfter: end }) => (end === undefined ? [] : [Date.parse(end)]));
  if (ends.length > 0) {
    context.metrics.certificate({ kind: "EdgeRouter", namespace, name }, { expires: new Date(Math.min(...ends)) });
  }
  const { replicas, readyReplicas, onlineReplicas, lastHandledReEnroll, lastHandledRestart } = plan;
  return {
    conditions: plan.conditions,
    events,
    requeueAfterMs: plan.actions.length > 0 ? Math.min(plan.requeueAfterMs, GOING_MS) : plan.requeueAfterMs,
    status: {
      replicas,
      readyReplicas,
      onlineReplicas,
      selector: selectorText(name),
      routers: [...plan.routers],
      lastHandledReEnroll,
      lastHandledRestart,
    },
  };
}

/** Nothing is written but the status. */
async function observeOnly(
  resource: EdgeRouterResource,
  network: UsableNetwork,
  context: RouterContext,
): Promise<Outcome<EdgeRouterResource>> {
  const seen: { name: string; differences: readonly string[]; missing?: string }[] = [];
  const routers: RouterStatus[] = [];
  for (let ordinal = 0; ordinal < resource.spec.replicas; ordinal++) {
    const { result, state } = await syncRouter(resource, ordinal, network, context, async () => {});
    const name = entityName(resource, ordinal);
    if (state.state === "failed") {
      seen.push({ name, differences: [], missing: state.message });
      continue;
    }
    const { id, isVerified, isOnline } = state.found;
    seen.push({ name, differences: "differences" in result ? result.differences : [] });
    routers.push({ ordinal, name, id, verified: isVerified === true, online: isOnline === true });
  }
  const onlineReplicas = routers.filter(({ online }) => online).length;
  return {
    conditions: observedConditions(seen),
    status: { replicas: routers.length, onlineReplicas, selector: selectorText(resource.metadata.name), routers },
  };
}

const goneEvent = ({ spec }: EdgeRouterResource, count: number): EventNote => ({
  type: "Normal",
  reason: spec.deletionPolicy === "Delete" ? "Deleted" : "Released",
  action: "Delete",
  note:
    spec.deletionPolicy === "Delete"
      ? `${count} routers are gone`
      : `${count} routers stay in the network and belong to no resource`,
});

/** The first router stands for all: they differ in names only. */
const FIRST = 0;

/**
 * Has the API server look at what a valid spec that was not followed yet comes to, before the network hears of it.
 *
 * @throws KubeError with the field and what is wrong with it
 */
async function dryRunRouter(
  resource: EdgeRouterResource,
  { image, controllers }: { readonly image: string; readonly controllers: Controllers },
  context: RouterContext,
  reader: ChildReader,
): Promise<void> {
  const { metadata, spec } = resource;
  if (spec.replicas === 0 || !isUntried(resource) || specProblems(resource, controllers).length > 0) return;
  const { namespace, name } = metadata;
  // Objects of other owners are not written in the end.
  const isOurs = (found: KubeObject | undefined) =>
    !isFormer(resource, found) && conflictsOf(resource, [found]).length === 0;
  const workload = { kind: KINDS.StatefulSet, namespace, name: routerName(name, FIRST) };
  const statefulSet = await reader.find<FoundStatefulSet>(context, workload, true);
  const parts = { ordinal: FIRST, id: "id", configHash: "", image, controllers, statefulSet };
  if (isOurs(statefulSet)) await dryRun(workloadOf(resource, parts), context);
  const wanted = edgeService(resource, FIRST);
  if (wanted === undefined) return;
  const service = { kind: KINDS.Service, namespace, name: edgeServiceName(name, FIRST) };
  if (isOurs(await reader.find(context, service, true))) await dryRun(wanted, context);
}
