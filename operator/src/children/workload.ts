import type { KubeObject, ObjectMeta } from "../kube/kinds.ts";

/** What is read of StatefulSets and their pods. */

export interface FoundStatefulSet extends KubeObject {
  readonly spec?: {
    readonly replicas?: number;
    readonly selector?: { readonly matchLabels?: Readonly<Record<string, string>> };
    readonly template?: { readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> } };
    readonly volumeClaimTemplates?: readonly {
      readonly metadata?: ObjectMeta;
      readonly spec?: { readonly resources?: { readonly requests?: { readonly storage?: string } } };
    }[];
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly updatedReplicas?: number;
    readonly currentRevision?: string;
    readonly updateRevision?: string;
  };
}

interface ContainerState {
  readonly running?: object;
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly terminated?: {
    readonly exitCode?: number;
    readonly reason?: string;
    readonly message?: string;
    readonly finishedAt?: string;
  };
}

export interface ContainerStatus {
  readonly name: string;
  readonly restartCount?: number;
  readonly state?: ContainerState;
  readonly lastState?: ContainerState;
}

export interface FoundPod extends KubeObject {
  readonly status?: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
      readonly lastTransitionTime?: string;
    }[];
    readonly initContainerStatuses?: readonly ContainerStatus[];
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

/** Whether the pods of the newest template are ready. One that a user scaled to zero is not: ours always want a pod. */
export function isRolledOut({ metadata, spec, status = {} }: FoundStatefulSet): boolean {
  const wanted = Math.max(1, spec?.replicas ?? 1);
  const { observedGeneration = 0, readyReplicas = 0, updatedReplicas = 0, currentRevision, updateRevision } = status;
  return (
    observedGeneration >= (metadata.generation ?? 0) &&
    readyReplicas >= wanted &&
    // Of a finished update the API server tells the revisions alone.
    (updatedReplicas >= wanted || (currentRevision !== undefined && currentRevision === updateRevision))
  );
}

export const isReady = (pod: FoundPod): boolean =>
  pod.metadata.deletionTimestamp === undefined &&
  pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true;

/** Whether a pod has been ready for so long. One that does not tell since when has. */
export function isReadyFor(pod: FoundPod | undefined, seconds: number, now: Date): boolean {
  const since = pod?.status?.conditions?.find(({ type, status }) => type === "Ready" && status === "True");
  const readyAt = Date.parse(since?.lastTransitionTime ?? "");
  return Number.isNaN(readyAt) || now.getTime() - readyAt >= seconds * 1_000;
}

/** Whether the program of a pod runs, ready or not: containers that others have put beside it do not count. */
export const isRunning = (pod: FoundPod | undefined, container: string): boolean =>
  pod?.metadata.deletionTimestamp === undefined &&
  pod?.status?.containerStatuses?.some(({ name, state }) => name === container && state?.running !== undefined) ===
    true;
