import { ANNOTATIONS } from "@sallyport/resources";
import type { AnyResource } from "./kind-reconciler.ts";

/** What is known of the Network that a resource refers to. */
export interface NetworkSeen {
  readonly metadata: { readonly deletionTimestamp?: string };
  readonly spec: { readonly managed?: unknown };
  readonly status: { readonly sessionIdentity?: string | undefined };
}

/** Why a resource that is being deleted leaves the network alone. */
export interface OrphanReason {
  readonly reason: "ForceOrphan" | "NetworkGone" | "NetworkDeleting" | "NetworkLost" | "NeverInNetwork";
  readonly note: string;
}

/**
 * Whether a resource goes without its clean-up in the network (docs/operator/loop.md, "Deletion"). Undefined: it has to be cleaned up.
 * @param network undefined when there is none of that name
 */
export function orphanReasonOf(resource: AnyResource, network: NetworkSeen | undefined): OrphanReason | undefined {
  if (resource.metadata.annotations?.[ANNOTATIONS.forceOrphan] === "true") {
    const note = "what it has in the network is left there, as the annotation force-orphan asks";
    return { reason: "ForceOrphan", note };
  }
  const name = networkOf(resource);
  if (name === undefined) return undefined;
  if (network === undefined) {
    const note = `there is no Network ${name} any more: what the resource has in the network is left there`;
    return { reason: "NetworkGone", note };
  }
  if (network.spec.managed !== undefined && network.metadata.deletionTimestamp !== undefined) {
    const note = `the Network ${name} is being deleted together with its controller: nothing is cleaned up in it`;
    return { reason: "NetworkDeleting", note };
  }
  return undefined;
}

const UNUSABLE = new Set(["ControllerUnavailable", "NetworkNotReady", "NetworkUnauthorized"]);

/**
 * Whether a resource whose clean-up failed for `reason` has nothing to clean up: it never got an id, and the operator never logged in to its Network, so that
 * nothing can have been created there.
 */
export function neverInNetwork(
  { status }: AnyResource,
  network: NetworkSeen | undefined,
  reason: string,
): OrphanReason | undefined {
  if (network === undefined || network.status.sessionIdentity !== undefined || !UNUSABLE.has(reason)) return undefined;
  const { id, routers = [] } = status as { id?: string; routers?: readonly { readonly id?: string }[] };
  if (id !== undefined || routers.some((router) => router.id !== undefined)) return undefined;
  return { reason: "NeverInNetwork", note: "the Network was never logged in to: the resource has nothing in it" };
}

/** The name in `spec.networkRef`; a Network has none. */
export function networkOf({ spec }: AnyResource): string | undefined {
  return (spec as { networkRef?: { name?: string } }).networkRef?.name;
}
