import { connect } from "node:tls";
import { listAll, type ManagementClient } from "@sallyport/api/client";
import {
  type EdgeRouterResource,
  edgeRouter,
  type FoundEdgeRouter,
  isOurs,
  OWNER_TAGS,
  ofOrdinal,
  ownerFilter,
  ownerOf,
  type RouterStatus,
} from "@sallyport/resources";
import { EntitySync, edgeRouters, type SyncResult } from "@sallyport/resources/sync";
import { type FoundClaim, findBlockedReason } from "../../../children/blocked-reason.ts";
import type { FoundPod, FoundStatefulSet } from "../../../children/workload.ts";
import type { UsableNetwork } from "../../../controller-client/network-clients.ts";
import { knownReferences } from "../../../entity/known-references.ts";
import { KINDS, type KubeObject, keyFor, type ObjectRef, type ResourceKind } from "../../../kube/kinds.ts";
import type { ReconcileContext } from "../../../loop/kind-reconciler.ts";
import { LatestObjects } from "../../../loop/latest-objects.ts";
import { type EntityState, namesIn, type ObservedRouter, type SurplusRouter } from "../plan/router-plan.ts";
import { keepsVolumes, ownPartOf } from "../plan/step.ts";
import type { FoundService } from "../render/address.ts";
import {
  claimName,
  configMapName,
  edgeServiceName,
  enrollmentName,
  entityName,
  ordinalOf,
  podName,
  routerName,
} from "../render/names.ts";
import { edgeService } from "../render/objects.ts";

export type RouterContext = ReconcileContext<EdgeRouterResource>;

/** Kinds whose content the watches leave out: they are read from the server. */
const READ = new Set(["ConfigMap", "Secret"]);

/**
 * Finds children: by the watches where these know them, with what was written a moment ago put first, and on the server where an object is wanted that
 * they don't know: it may have another owner.
 */
export class ChildReader {
  readonly #latest = new Map<string, LatestObjects<KubeObject>>();
  /** ConfigMaps as they were read last: nothing in them is secret, and as long as the watch tells no other version they are so still. */
  readonly #configMaps = new Map<string, KubeObject>();
  /** EdgeRouters, by UID, that have no ServiceMonitor for sure. */
  readonly #unmonitored = new Set<string>();

  /** @param isWanted false: only one that is known is looked for */
  async find<T extends KubeObject>(
    context: RouterContext,
    ref: ObjectRef & { namespace: string },
    isWanted: boolean,
  ): Promise<T | undefined> {
    const { kind, namespace, name } = ref;
    const known = context.known.child<T>(kind, namespace, name);
    if (known === undefined && !isWanted) return undefined;
    if (kind.kind === "ConfigMap") return await this.#configMap<T>(context, ref, known);
    if (known === undefined || READ.has(kind.kind)) return await context.client.get<T>(ref, { signal: context.signal });
    return this.#of(kind).of(keyFor(namespace, name), known) as T;
  }

  async #configMap<T extends KubeObject>(
    { client, signal }: RouterContext,
    ref: ObjectRef & { namespace: string },
    known: KubeObject | undefined,
  ): Promise<T | undefined> {
    const key = keyFor(ref.namespace, ref.name);
    const before = this.#configMaps.get(key);
    if (before !== undefined && known !== undefined && isSameVersion(before, known)) return before as T;
    const found = await client.get<T>(ref, { signal });
    if (found === undefined) this.#configMaps.delete(key);
    else this.#configMaps.set(key, found);
    return found;
  }

  /** Not every cluster knows this kind: it is not watched. */
  async serviceMonitor(
    context: RouterContext,
    { metadata, spec }: EdgeRouterResource,
  ): Promise<KubeObject | undefined> {
    const { namespace, name, uid } = metadata;
    if (spec.serviceMonitor.enabled) this.#unmonitored.delete(uid);
    else if (this.#unmonitored.has(uid)) return undefined;
    const found = await context.client.get({ kind: KINDS.ServiceMonitor, namespace, name }, { signal: context.signal });
    if (found === undefined && !spec.serviceMonitor.enabled) this.#unmonitored.add(uid);
    return found;
  }

  /** The server's answer to a write. */
  wrote(kind: ResourceKind, object: KubeObject): void {
    this.#of(kind).wrote(keyFor(object.metadata.namespace, object.metadata.name), object);
  }

  forget({ kind, namespace, name }: ObjectRef): void {
    this.#of(kind).forget(keyFor(namespace, name));
  }

  /** What is kept of the children of an EdgeRouter that is gone. Of another one whose name begins like it something is read once more at most. */
  forgetAll({ metadata: { namespace, name, uid } }: Pick<EdgeRouterResource, "metadata">): void {
    const isOf = (key: string): boolean =>
      key === keyFor(namespace, name) || key.startsWith(`${keyFor(namespace, name)}-`);
    for (const key of this.#configMaps.keys()) if (isOf(key)) this.#configMaps.delete(key);
    for (const latest of this.#latest.values()) latest.forgetWhere(isOf);
    this.#unmonitored.delete(uid);
  }

  #of(kind: ResourceKind): LatestObjects<KubeObject> {
    const there = this.#latest.get(kind.kind) ?? new LatestObjects<KubeObject>();
    this.#latest.set(kind.kind, there);
    return there;
  }
}

const isSameVersion = ({ metadata: left }: KubeObject, { metadata: right }: KubeObject): boolean =>
  left.uid === right.uid && left.resourceVersion === right.resourceVersion;

export const edgeRouterSync = new EntitySync(edgeRouter, edgeRouters);

/** The entity of one router after it was made as the spec wants it. */
export interface SyncedRouter {
  readonly ordinal: number;
  readonly result: SyncResult<FoundEdgeRouter>;
  readonly state: EntityState;
}

export const statusOfRouter = ({ status }: EdgeRouterResource, ordinal: number): RouterStatus | undefined =>
  status.routers?.find((each) => each.ordinal === ordinal);

/** What the status knows of an entity. Only who manages a router writes whether it was ever online: without that it was looked at and nothing else. */
export function knownOf(before: RouterStatus | undefined): { id: string | undefined; wasObserved: boolean } {
  return { id: before?.id, wasObserved: before?.id !== undefined && before.everOnline === undefined };
}

/** Brings the entity of one router into order. The id is in the status before anything else is done. */
export async function syncRouter(
  resource: EdgeRouterResource,
  ordinal: number,
  network: UsableNetwork,
  context: RouterContext,
  keep: (router: RouterStatus) => Promise<void>,
): Promise<SyncedRouter> {
  const { client, settings } = network;
  const { signal } = context;
  const before = statusOfRouter(resource, ordinal);
  const surroundings = {
    owner: ownerOf(resource, context.cluster, ordinal),
    scope: { ...settings, namespace: resource.metadata.namespace },
    references: knownReferences(resource, edgeRouter.references(resource.spec), context.known),
  };
  const onIdentified = (id: string): Promise<void> => keep({ ...before, ordinal, id });
  const result = await edgeRouterSync.sync(client, ofOrdinal(resource, ordinal), knownOf(before), surroundings, {
    signal,
    onIdentified,
  });
  return { ordinal, result, state: await stateOf(result, client, signal) };
}

/** The entity of one router whose spec can't be followed: nothing is written, and one that was never made is not looked for. */
export async function observeEntity(
  resource: EdgeRouterResource,
  ordinal: number,
  network: UsableNetwork,
  context: RouterContext,
): Promise<SyncedRouter> {
  if (statusOfRouter(resource, ordinal)?.everOnline !== undefined) {
    const observing = { ...resource, spec: { ...resource.spec, managementPolicy: "Observe" as const } };
    return await syncRouter(observing, ordinal, network, context, async () => {});
  }
  const message = `router ${entityName(resource, ordinal)} is not made before the spec is valid`;
  const result = { state: "waiting", reason: "NotInNetwork", message, missing: [], notes: [] } as const;
  return { ordinal, result, state: { state: "failed", reason: result.reason, message, isStalled: false } };
}

async function stateOf(
  result: SyncResult<FoundEdgeRouter>,
  client: ManagementClient,
  signal: AbortSignal,
): Promise<EntityState> {
  switch (result.state) {
    case "conflict":
      return { state: "failed", reason: result.reason, message: result.message, isStalled: true };
    case "waiting":
      return { state: "failed", reason: result.reason, message: result.message, isStalled: false };
    default: {
      // As it is after a change, too; when nothing was changed it is what was found.
      const isUnchanged = result.notes.every(({ reason }) => reason === "DeletedExternally");
      const found = isUnchanged ? result.found : undefined;
      const { id, missing } = result;
      return { state: "synced", found: found ?? (await edgeRouters.detail(client, id, { signal })).data, missing };
    }
  }
}

/** One router, with what there is of it in the cluster. */
export async function observeRouter(
  resource: EdgeRouterResource,
  { ordinal, state }: SyncedRouter,
  context: RouterContext,
  reader: ChildReader,
): Promise<ObservedRouter> {
  const { namespace, name } = resource.metadata;
  const ref = { kind: KINDS.Secret, namespace, name: enrollmentName(name, ordinal) };
  const isVerified = state.state === "synced" && state.found.isVerified === true;
  return {
    ...(await observeWorkload(resource, ordinal, context, reader)),
    entity: state,
    before: statusOfRouter(resource, ordinal),
    secret: await reader.find(context, ref, !isVerified),
  };
}

/** What there is of one router in the cluster, but for its token. */
export async function observeWorkload(
  resource: EdgeRouterResource,
  ordinal: number,
  context: RouterContext,
  reader: ChildReader,
): Promise<Omit<ObservedRouter, "entity" | "before" | "secret">> {
  const { namespace, name } = resource.metadata;
  const find = <T extends KubeObject>(kind: (typeof KINDS)[keyof typeof KINDS], of: string, isWanted = true) =>
    reader.find<T>(context, { kind, namespace, name: of }, isWanted);
  const statefulSet = await find<FoundStatefulSet>(KINDS.StatefulSet, routerName(name, ordinal));
  const pod = context.known.child<FoundPod>(KINDS.Pod, namespace, podName(name, ordinal));
  const claim = context.known.child<FoundClaim>(KINDS.PersistentVolumeClaim, namespace, claimName(name, ordinal));
  return {
    ordinal,
    service: await find<FoundService>(
      KINDS.Service,
      edgeServiceName(name, ordinal),
      edgeService(resource, ordinal) !== undefined,
    ),
    configMap: await find(KINDS.ConfigMap, configMapName(name, ordinal)),
    ...{ statefulSet, pod, claim },
    blockedReason: await findBlockedReason({ statefulSet, pod, claim }, context),
  };
}

/** Objects of all routers together, by kind and name. */
export async function observeShared(
  resource: EdgeRouterResource,
  context: RouterContext,
  reader: ChildReader,
): Promise<ReadonlyMap<string, KubeObject>> {
  const { namespace, name } = resource.metadata;
  const { spec } = resource;
  const wanted = [
    [KINDS.ServiceAccount, spec.template?.spec?.serviceAccountName === undefined],
    [KINDS.Service, true],
    [KINDS.PodDisruptionBudget, spec.podDisruptionBudget.enabled && spec.replicas > 1],
    [KINDS.NetworkPolicy, spec.networkPolicy.enabled],
  ] as const;
  const found = new Map<string, KubeObject>();
  for (const [kind, isWanted] of wanted) {
    const object = await reader.find(context, { kind, namespace, name }, isWanted);
    if (object !== undefined) found.set(`${kind.kind}/${name}`, object);
  }
  const monitor = await reader.serviceMonitor(context, resource);
  if (monitor !== undefined) found.set(`${KINDS.ServiceMonitor.kind}/${name}`, monitor);
  return found;
}

const ROUTER_KINDS = [KINDS.StatefulSet, KINDS.Service, KINDS.ConfigMap, KINDS.Secret];

/**
 * Routers that are there with an ordinal from `from` on. The network is asked for those that the status does not know when `asksNetwork`: an operator that ended
 * between making one and writing it down leaves such.
 */
export async function observeSurplus(
  resource: EdgeRouterResource,
  from: number,
  network: UsableNetwork,
  context: RouterContext,
  asksNetwork: boolean,
): Promise<SurplusRouter[]> {
  const { namespace, name } = resource.metadata;
  const { known } = context;
  const objects = ROUTER_KINDS.flatMap((kind) => known.childrenOf<KubeObject>(kind, resource));
  const pods = known.childrenOf<FoundPod>(KINDS.Pod, resource);
  const claims = keepsVolumes(resource) ? [] : known.childrenOf<KubeObject>(KINDS.PersistentVolumeClaim, resource);
  const listed = (resource.status.routers ?? []).map(({ ordinal }) => ordinal);
  const seen = [...objects, ...pods, ...claims].flatMap((object) => ordinalOf(object) ?? []);
  const isAnyLeft = [...listed, ...seen].some((ordinal) => ordinal >= from);
  const entities =
    isAnyLeft || asksNetwork ? await entitiesOf(resource, network, context) : new Map<number, FoundEdgeRouter>();
  const ordinals = new Set([...listed, ...seen, ...entities.keys()].filter((ordinal) => ordinal >= from));
  const surplus = [...ordinals]
    .sort((a, b) => a - b)
    .map((ordinal): SurplusRouter => {
      const entity = entities.get(ordinal);
      return {
        ordinal,
        entity: entity && { id: entity.id, name: entity.name, noTraversal: entity.noTraversal === true },
        before: statusOfRouter(resource, ordinal),
        objects: objects.filter((object) => ordinalOf(object) === ordinal),
        pod:
          pods.find((pod) => ordinalOf(pod) === ordinal) ??
          known.child<FoundPod>(KINDS.Pod, namespace, podName(name, ordinal)),
        claim: claims.find((each) => ordinalOf(each) === ordinal && each.metadata.deletionTimestamp === undefined),
      };
    });
  return surplus
    .map((router) => ownPartOf(resource, router))
    .filter(({ entity, objects, pod, claim }) => entity ?? pod ?? claim ?? objects[0]);
}

async function entitiesOf(
  resource: EdgeRouterResource,
  { client }: UsableNetwork,
  { cluster, signal }: RouterContext,
): Promise<Map<number, FoundEdgeRouter>> {
  const filter = ownerFilter(ownerOf(resource, cluster));
  const found = await listAll((query) => edgeRouters.list(client, { ...query, filter }, { signal }));
  return new Map(
    found.flatMap((entity) => {
      const ordinal = Number(entity.tags?.[OWNER_TAGS.ordinal] ?? Number.NaN);
      const isMine = Number.isInteger(ordinal) && isOurs(entity, ownerOf(resource, cluster, ordinal));
      return isMine ? [[ordinal, entity] as const] : [];
    }),
  );
}

/** Asks a pod which hosts its certificate is for; undefined when it does not answer. */
export type NameProbe = (host: string, port: number, signal: AbortSignal) => Promise<readonly string[] | undefined>;

const PATIENCE_MS = 3_000;

/**
 * By a handshake and nothing else. The answer is not trusted: a wrong one would let a router advertise a name too early, which those who dial it
 * refuse, as they would a wrong certificate.
 */
export const servedNames: NameProbe = (host, port, signal) =>
  new Promise((resolve) => {
    const socket = connect({ host, port, rejectUnauthorized: false, timeout: PATIENCE_MS });
    const end = (names?: readonly string[]): void => {
      signal.removeEventListener("abort", onAbort);
      socket.destroy();
      resolve(names);
    };
    const onAbort = (): void => end();
    signal.addEventListener("abort", onAbort, { once: true });
    socket.once("secureConnect", () => end(namesIn(socket.getPeerX509Certificate()?.subjectAltName)));
    socket.once("timeout", () => end());
    // A pod that can't be reached tells nothing: the address stays what it is.
    socket.once("error", () => end());
  });
