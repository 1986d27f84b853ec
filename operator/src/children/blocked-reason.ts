import { KINDS, type KubeObject } from "../kube/kinds.ts";
import type { ChildContext } from "./apply.ts";
import type { FoundPod, FoundStatefulSet } from "./workload.ts";

/** A claim for a volume, as far as it is read. */
export interface FoundClaim extends KubeObject {
  readonly spec?: { readonly resources?: { readonly requests?: { readonly storage?: string } } };
  readonly status?: { readonly phase?: string };
}

/** An event of Kubernetes about an object; those of its own controllers have their times in the deprecated fields. */
export interface FoundEvent extends KubeObject {
  readonly type?: string;
  readonly reason?: string;
  readonly note?: string;
  readonly regarding?: { readonly uid?: string };
  readonly eventTime?: string | null;
  readonly series?: { readonly lastObservedTime?: string } | null;
  readonly deprecatedLastTimestamp?: string | null;
}

/** Why a workload has no pod that could run, where the pod itself does not tell. */
export interface BlockedReason {
  readonly reason: "PodRefused" | "VolumePending";
  readonly message: string;
}

/** A workload without a pod on a node, and what has to be known for that. */
interface ObservedWorkload {
  readonly statefulSet: FoundStatefulSet | undefined;
  readonly pod: FoundPod | undefined;
  readonly claim: FoundClaim | undefined;
}

/** The object whose events say what is in the way: the StatefulSet that gets no pod, or the claim that gets no volume. Undefined: nothing needs an explanation. */
export function blockedObject({ statefulSet, pod, claim }: ObservedWorkload): KubeObject | undefined {
  if (statefulSet === undefined || statefulSet.metadata.deletionTimestamp !== undefined) return undefined;
  if (pod === undefined) return statefulSet.spec?.replicas === 0 ? undefined : statefulSet;
  if (pod.metadata.deletionTimestamp !== undefined || claim?.status?.phase !== "Pending") return undefined;
  const scheduled = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  return scheduled?.status === "False" ? claim : undefined;
}

/** What the newest of the events about the blocked object says; undefined when that is not that something failed. */
export function blockedReasonOf(of: KubeObject, events: readonly FoundEvent[]): BlockedReason | undefined {
  const told = events
    .filter(({ regarding, reason, note }) => {
      // That the claim for the volume was made says nothing about the pod.
      const isBeside = reason === "SuccessfulCreate" && note?.startsWith("create Pod ") !== true;
      return regarding?.uid === of.metadata.uid && !isBeside;
    })
    .map((event) => ({ event, at: timeOf(event) }))
    .toSorted((a, b) => a.at - b.at || weight(a.event) - weight(b.event));
  const newest = told.at(-1)?.event;
  if (newest?.type !== "Warning" || newest.note === undefined) return undefined;
  const { name } = of.metadata;
  const note = newest.note.replace(/^\(combined from similar events\): /, "");
  if (of.kind === "PersistentVolumeClaim")
    return { reason: "VolumePending", message: `the volume ${name} can't be had: ${note}` };
  return { reason: "PodRefused", message: `the cluster makes no pod of StatefulSet ${name}: ${note}` };
}

/** Kubernetes tells times in seconds: of two events of one second what failed counts. */
const weight = ({ type }: FoundEvent): number => (type === "Warning" ? 1 : 0);

function timeOf({ series, deprecatedLastTimestamp, eventTime, metadata }: FoundEvent): number {
  const times = [series?.lastObservedTime, deprecatedLastTimestamp, eventTime, metadata.creationTimestamp];
  return Math.floor(Math.max(0, ...times.map((time) => Date.parse(time ?? "")).filter(Number.isFinite)) / 1_000);
}

/**
 * Why a workload gets no pod, or its pod no volume: a quota, the standard of the namespace, a storage class that is not there. Kubernetes tells that in
 * events alone. They are read only while there is something to explain; where that fails nothing is explained.
 */
export async function findBlockedReason(
  workload: ObservedWorkload,
  { client, signal, log }: Pick<ChildContext, "client" | "signal" | "log">,
): Promise<BlockedReason | undefined> {
  const of = blockedObject(workload);
  if (of === undefined) return undefined;
  const { namespace, name } = of.metadata;
  const fieldSelector = `regarding.kind=${of.kind},regarding.name=${name}`;
  try {
    const { items } = await client.list<FoundEvent>(KINDS.Event, namespace, { fieldSelector, signal });
    return blockedReasonOf(of, items);
  } catch (error) {
    signal.throwIfAborted();
    log.debug({ err: error }, "events that would say why there is no pod can't be read");
    return undefined;
  }
}
