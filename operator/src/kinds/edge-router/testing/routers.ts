import type { EdgeRouterResource, FoundEdgeRouter, RouterStatus } from "@sallyport/resources";
import { Admissions } from "../../../children/intent.ts";
import type { FoundPod, FoundStatefulSet } from "../../../children/workload.ts";
import type { KubeObject } from "../../../kube/kinds.ts";
import type { ObservedRouter, RouterAction, RouterPlanInput } from "../plan/router-plan.ts";
import { planEdgeRouter } from "../plan.ts";
import { edgeRouter } from "./edge-router.ts";

export const NOW = new Date("2026-11-02T12:00:00Z");
export const ago = (seconds: number): string => new Date(NOW.getTime() - seconds * 1000).toISOString();
export const ahead = (seconds: number): string => ago(-seconds);

export const OWNER = {
  apiVersion: "sallyport.dev/v1alpha1",
  kind: "EdgeRouter",
  name: "eu",
  uid: "uid-eu",
  controller: true,
};

export const found = (more: Partial<FoundEdgeRouter> = {}): FoundEdgeRouter => ({
  ...{ id: "r-0", name: "eu-0", isVerified: true, isOnline: true, syncStatus: "SYNC_DONE" },
  ...more,
});

/** One that waits to be enrolled. */
export const unverified = (more: Partial<FoundEdgeRouter> = {}): FoundEdgeRouter =>
  found({
    ...{ isVerified: false, isOnline: false, syncStatus: "SYNC_DISCONNECTED", enrollmentJwt: "a.b.c" },
    ...{ enrollmentCreatedAt: ago(300), enrollmentExpiresAt: ahead(10_000) },
    ...more,
  });

/** Everything is as it should be after the first plan was carried out. */
export function router(more: Partial<ObservedRouter> = {}): ObservedRouter {
  const ordinal = more.ordinal ?? 0;
  const before: RouterStatus = {
    ordinal,
    name: `eu-${ordinal}`,
    id: `r-${ordinal}`,
    verified: true,
    online: true,
    everOnline: true,
    volume: "claim-1",
  };
  return {
    ordinal,
    entity: { state: "synced", found: found({ id: `r-${ordinal}`, name: `eu-${ordinal}` }) },
    before,
    pod: pod(),
    claim: object("PersistentVolumeClaim", `data-eu-${ordinal}-0`, {
      metadata: { uid: "claim-1" },
      spec: { resources: { requests: { storage: "50Mi" } } },
    }),
    ...more,
  };
}

export function object<T extends KubeObject>(
  kind: string,
  name: string,
  more: { metadata?: object } & Record<string, unknown> = {},
): T {
  const metadata = {
    name,
    namespace: "edge",
    uid: `uid-${name}`,
    generation: 1,
    creationTimestamp: ago(600),
    ownerReferences: [OWNER],
    ...more.metadata,
  };
  return { apiVersion: "v1", kind, ...more, metadata } as unknown as T;
}

/** An object without an owner; below, one of an EdgeRouter that had the same name before. */
export const unowned = <T extends KubeObject>(kind: string, name: string): T =>
  object(kind, name, { metadata: { ownerReferences: [] } });
export const formers = <T extends KubeObject>(kind: string, name: string): T =>
  object(kind, name, { metadata: { ownerReferences: [{ ...OWNER, uid: "former" }] } });

export const container = (name: string, state: object, more: object = {}) => ({
  name,
  restartCount: 0,
  state,
  ...more,
});
const DONE = container("enroll", { terminated: { exitCode: 0 } });

export const pod = (status: object = {}, metadata: object = {}): FoundPod =>
  object("Pod", "eu-0-0", {
    metadata,
    status: {
      phase: "Running",
      podIP: "192.0.2.5",
      initContainerStatuses: [DONE],
      containerStatuses: [container("router", { running: {} })],
      ...status,
    },
  });

/** The container that enrolls found no token. */
export const tokenless = (metadata: object = {}): FoundPod =>
  pod(
    {
      initContainerStatuses: [
        container(
          "enroll",
          { waiting: { reason: "CrashLoopBackOff" } },
          {
            restartCount: 4,
            lastState: {
              terminated: {
                exitCode: 1,
                reason: "Error",
                message: "sallyport-router: there is no certificate, and the token file cannot be read [NO_TOKEN]",
              },
            },
          },
        ),
      ],
      containerStatuses: [],
    },
    metadata,
  );

export const set = (isReady = true, more: object = {}): FoundStatefulSet =>
  object("StatefulSet", "eu-0", {
    status: { observedGeneration: 1, readyReplicas: isReady ? 1 : 0, updatedReplicas: 1 },
    ...more,
  });

export const input = (
  routers: readonly ObservedRouter[],
  more: Partial<RouterPlanInput> & { spec?: object; metadata?: object; status?: object } = {},
): RouterPlanInput => {
  const { spec, metadata, status, ...rest } = more;
  const given = edgeRouter({ replicas: routers.length, ...spec }, metadata);
  const resource: EdgeRouterResource = { ...given, status: { ...given.status, ...status } };
  return {
    ...{ resource, now: NOW, image: "sallyport/router:1", routers, surplus: [], shared: new Map() },
    controllers: { endpoints: [], areChosen: false },
    isThere: new Admissions().isThere,
    ...rest,
  };
};

/** `apply ConfigMap eu-0-config`, `reEnroll 0`. */
export const words = (actions: readonly RouterAction[]): string[] =>
  actions.map((action) => {
    switch (action.type) {
      case "apply":
        return `apply ${action.object.kind} ${action.object.metadata.name}`;
      case "delete":
        return `delete ${action.ref.kind.kind} ${action.ref.name}`;
      case "growClaim":
        return `grow ${action.name} ${action.size}`;
      default:
        return `${action.type} ${action.ordinal}`;
    }
  });

/** The input after the objects of a plan were applied: StatefulSets are ready, or as `status` says. */
export function applied(given: RouterPlanInput, o: { isReady?: boolean } = {}): RouterPlanInput {
  const shared = new Map(given.shared);
  const routers = new Map(given.routers.map((each) => [each.ordinal, { ...each } as Record<string, unknown>]));
  for (const action of planEdgeRouter(given).actions) {
    if (action.type !== "apply") continue;
    const { kind, metadata } = action.object;
    const ordinal = metadata.labels?.["sallyport.dev/ordinal"];
    const stored = {
      ...action.object,
      metadata: { ...metadata, uid: `uid-${metadata.name}`, generation: 1, creationTimestamp: ago(600) },
    };
    const status = { observedGeneration: 1, readyReplicas: o.isReady === false ? 0 : 1, updatedReplicas: 1 };
    if (ordinal === undefined) shared.set(`${kind}/${metadata.name}`, stored);
    else
      Object.assign(routers.get(Number(ordinal)) ?? {}, {
        [FIELDS[kind] ?? ""]: kind === "StatefulSet" ? { ...stored, status } : stored,
      });
  }
  return { ...given, shared, routers: [...routers.values()] as unknown as ObservedRouter[] };
}

const FIELDS: Readonly<Record<string, string>> = {
  ConfigMap: "configMap",
  Secret: "secret",
  Service: "service",
  StatefulSet: "statefulSet",
};

export const of = (entity: FoundEdgeRouter, more: Partial<ObservedRouter> = {}) =>
  router({ entity: { state: "synced", found: entity }, ...more });
/** The actions of the plan as {@link words}. */
export const plannedActions = (given: RouterPlanInput) => words(planEdgeRouter(given).actions);
/** Everything there and as it should be. */
export const settled = (routers: readonly ObservedRouter[] = [router()], more: Parameters<typeof input>[1] = {}) =>
  applied(input(routers, more));

/** The routers 0 and 1. */
export const pair = (): ObservedRouter[] => [router(), router({ ordinal: 1 })];
/** One router all of whose objects were just made: its pod is this one, and not ready. */
export const starting = (found: FoundPod | undefined, more: Partial<ObservedRouter> = {}) =>
  applied(input([router({ pod: found, ...more })]), { isReady: false });

/** The same objects under another spec. */
export function withSpec(given: RouterPlanInput, spec: object): RouterPlanInput {
  const { resource } = input(given.routers, { spec: { replicas: given.routers.length, ...spec } });
  return { ...given, resource };
}
