import { X509Certificate } from "node:crypto";
import {
  ANNOTATIONS,
  type EdgeRouterResource,
  type FoundEdgeRouter,
  type MissingReference,
  type RouterStatus,
} from "@sallyport/resources";
import type { BlockedReason, FoundClaim } from "../../../children/blocked-reason.ts";
import type { IsThere } from "../../../children/intent.ts";
import type { ContainerStatus, FoundPod, FoundStatefulSet } from "../../../children/workload.ts";
import type { ConditionDraft } from "../../../kube/conditions.ts";
import type { EventNote } from "../../../kube/events/recorder.ts";
import type { KubeObject, ObjectRef } from "../../../kube/kinds.ts";
import type { Controllers } from "../../network/interface.ts";
import type { FoundService } from "../render/address.ts";
import { CONTAINERS } from "../render/names.ts";

/** What there is of one router, in the network and in the cluster. */
export interface ObservedRouter {
  readonly ordinal: number;
  readonly entity: EntityState;
  /** What the status said. */
  readonly before: RouterStatus | undefined;
  readonly service?: FoundService | undefined;
  readonly configMap?: KubeObject | undefined;
  readonly secret?: KubeObject | undefined;
  readonly statefulSet?: FoundStatefulSet | undefined;
  readonly pod?: FoundPod | undefined;
  readonly claim?: FoundClaim | undefined;
  /** Why there is no pod, or none that could run, where that was looked for. */
  readonly blockedReason?: BlockedReason | undefined;
  /** Hosts of the certificate that it shows to clients, where that was asked. */
  readonly servedNames?: readonly string[] | undefined;
}

export type EntityState =
  /** It is ours, and as the spec wants; but for references that are `missing`. */
  | {
      readonly state: "synced";
      readonly found: FoundEdgeRouter;
      readonly missing?: readonly MissingReference[];
    }
  /** `isStalled`: a person has to act. */
  | { readonly state: "failed"; readonly reason: string; readonly message: string; readonly isStalled: boolean };

/** Why a pod does not work. */
interface PodProblem {
  readonly reason: string;
  readonly message: string;
  /** It failed more than once: it is not just starting. */
  readonly isRepeated: boolean;
  /** The container that enrolls found neither certificates nor a token. */
  readonly isTokenMissing: boolean;
}

const HARMLESS = new Set(["ContainerCreating", "PodInitializing"]);

export function podProblem(pod: FoundPod | undefined): PodProblem | undefined {
  const status = pod?.status;
  // One that is on its way out is replaced.
  if (status === undefined || pod?.metadata.deletionTimestamp !== undefined) return undefined;
  for (const each of [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])]) {
    const problem = containerProblem(each);
    if (problem !== undefined) return problem;
  }
  const scheduled = status.conditions?.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status !== "False") return undefined;
  const message = scheduled.message ?? "no node takes the pod";
  return { reason: scheduled.reason ?? "Unschedulable", message, isRepeated: false, isTokenMissing: false };
}

/** Why a router does not work: what is in the way of its pod, or what the pod says itself. */
export function routerProblem({ blockedReason, pod }: ObservedRouter): PodProblem | undefined {
  return blockedReason === undefined ? podProblem(pod) : { ...blockedReason, isRepeated: false, isTokenMissing: false };
}

function containerProblem({ name, state, lastState, restartCount = 0 }: ContainerStatus): PodProblem | undefined {
  const ended = [state?.terminated, lastState?.terminated].find((each) => each !== undefined && each.exitCode !== 0);
  const { waiting } = state ?? {};
  const isWaiting = waiting?.reason !== undefined && !HARMLESS.has(waiting.reason);
  if (!isWaiting && state?.terminated === undefined) return undefined;
  if (!isWaiting && ended === undefined) return undefined;
  const said = (ended?.message ?? waiting?.message ?? "").trim().split("\n").slice(-3).join(" ");
  return {
    reason: waiting?.reason ?? ended?.reason ?? "Error",
    message: `container ${name}: ${waiting?.reason ?? "ended"}${said === "" ? "" : `: ${said}`}`,
    isRepeated: restartCount >= 2,
    isTokenMissing: name === CONTAINERS.enroll && said.includes("[NO_TOKEN]"),
  };
}

/** Since when a pod that is to stay is not ready; undefined for one that is ready, or on its way out. However old a pod is, it is replaced in every rollout. */
export function unreadySince({ metadata, status }: FoundPod): Date | undefined {
  if (metadata.deletionTimestamp !== undefined) return undefined;
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status === "True") return undefined;
  return new Date(ready?.lastTransitionTime ?? metadata.creationTimestamp ?? "");
}

const enrollEnd = (pod: FoundPod | undefined) =>
  pod?.status?.initContainerStatuses?.find(({ name }) => name === CONTAINERS.enroll)?.state?.terminated;

/** Whether the container that enrolls is done. */
export const isInitialized = (pod: FoundPod | undefined): boolean => enrollEnd(pod)?.exitCode === 0;

/** When it was done, if the cluster says so. */
export function initializedAt(pod: FoundPod | undefined): Date | undefined {
  const { exitCode, finishedAt } = enrollEnd(pod) ?? {};
  return exitCode === 0 && finishedAt !== undefined ? new Date(finishedAt) : undefined;
}

/** Hash of the file that the pods of its template run with. */
export const templateHash = ({ spec }: FoundStatefulSet): string | undefined =>
  spec?.template?.metadata?.annotations?.[ANNOTATIONS.configHash];

export const isOnline = ({ entity }: ObservedRouter): boolean =>
  entity.state === "synced" && entity.found.isOnline === true;

export const isVerified = ({ entity }: ObservedRouter): boolean =>
  entity.state === "synced" && entity.found.isVerified === true;

/** What the certificate of a router says; undefined when there is none that can be read. */
export function certificateOf(
  pem: string | null | undefined,
): { names: string[]; notBefore: Date; notAfter: Date } | undefined {
  if (!pem) return undefined;
  try {
    const { subjectAltName, validFromDate, validToDate } = new X509Certificate(pem);
    return { names: namesIn(subjectAltName), notBefore: validFromDate, notAfter: validToDate };
  } catch {
    // Written by a controller of another make: nothing is known then.
    return undefined;
  }
}

/** Hosts of `DNS:a, IP Address:192.0.2.1`. */
export function namesIn(subjectAltName: string | undefined): string[] {
  return (subjectAltName ?? "").split(", ").flatMap((part) => /^(?:DNS|IP Address):(.+)$/.exec(part)?.[1] ?? []);
}

/** Everything that a plan is made from. */
export interface RouterPlanInput {
  readonly resource: EdgeRouterResource;
  readonly now: Date;
  /** Where the spec names no image. */
  readonly image: string;
  readonly controllers: Controllers;
  /** The routers that are wanted, from 0 on. */
  readonly routers: readonly ObservedRouter[];
  /** Those that are there and not wanted any more. */
  readonly surplus: readonly SurplusRouter[];
  /** Objects of all routers, by `<kind>/<name>`. */
  readonly shared: ReadonlyMap<string, KubeObject>;
  readonly isThere: IsThere;
}

/** A router that is to go. */
export interface SurplusRouter {
  readonly ordinal: number;
  /** Undefined: there is none in the network. */
  readonly entity?: { readonly id: string; readonly name: string; readonly noTraversal: boolean } | undefined;
  readonly before: RouterStatus | undefined;
  /** Its objects in the cluster; pods and claims apart. */
  readonly objects: readonly KubeObject[];
  readonly pod?: FoundPod | undefined;
  readonly claim?: KubeObject | undefined;
}

/** One thing to do. Each may be done again, and each leaves less to do. */
export type RouterAction =
  | { readonly type: "apply"; readonly object: KubeObject }
  /** Only this very object. */
  | { readonly type: "delete"; readonly ref: ObjectRef; readonly uid: string | undefined }
  | { readonly type: "growClaim"; readonly name: string; readonly size: string }
  | {
      readonly type: "reEnroll";
      readonly ordinal: number;
      readonly id: string;
      /** Value of the annotation that asks for it. */
      readonly handled?: string | undefined;
      /** For want of a token that it could use: not when it has used the last one meanwhile. */
      readonly unlessVerified?: boolean;
    }
  | { readonly type: "stopTraversal"; readonly ordinal: number; readonly id: string }
  | { readonly type: "removeEntity"; readonly ordinal: number };

/** What is to be done, and how things stand until then. */
export interface RouterPlan {
  readonly actions: readonly RouterAction[];
  readonly routers: readonly RouterStatus[];
  readonly conditions: readonly ConditionDraft[];
  readonly events: readonly EventNote[];
  readonly requeueAfterMs: number;
  /** Routers that go on under an old address until their certificate has the name of the new one. */
  readonly changing: readonly number[];
  readonly replicas: number;
  readonly readyReplicas: number;
  readonly onlineReplicas: number;
  readonly lastHandledReEnroll: string | undefined;
  readonly lastHandledRestart: string | undefined;
}
