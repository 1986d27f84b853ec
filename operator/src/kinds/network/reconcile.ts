import { type NetworkResource, networkKind } from "@sallyport/resources";
import { KINDS, type KubeObject, type ResourceKind } from "../../kube/kinds.ts";
import type { AnyResource, KindReconciler, Removal } from "../../loop/kind-reconciler.ts";
import { type ExternalOptions, keepUsable, reconcileExternal } from "./reconcile/external.ts";
import { type ManagedOptions, reconcileManaged } from "./reconcile/managed.ts";
import { FirstLogins } from "./reconcile/operator-identity.ts";
import { type NetworkContext, refOf } from "./reconcile/use.ts";
import { childNames, isChild } from "./render/names.ts";

type NetworkReconcilerOptions = ExternalOptions & ManagedOptions;

/** Reconciles Networks (docs/operator/networks.md): connects to those that exist, runs those that the operator is to run. */
export function networkReconciler(o: NetworkReconcilerOptions): KindReconciler<NetworkResource> {
  const firstLogins = new FirstLogins(o.times?.refusedLoginMs);
  return {
    kind: networkKind,
    owns: [
      KINDS.StatefulSet,
      KINDS.Service,
      KINDS.ConfigMap,
      KINDS.Secret,
      KINDS.PersistentVolumeClaim,
      KINDS.PodDisruptionBudget,
      KINDS.Pod,
    ],
    async reconcile(resource, context) {
      const { external, managed } = resource.spec;
      if (external !== undefined) return await reconcileExternal(resource, external, context, o);
      if (managed !== undefined) return await reconcileManaged(resource, managed, context, { ...o, firstLogins });
      throw new TypeError("a Network that is neither external nor managed passed the schema");
    },
    remove: async (resource, context) => {
      firstLogins.forget(refOf(resource));
      return await removeNetwork(resource, context, o);
    },
    // The same without waiting.
    abandon: async (resource, context) => void (await release(resource, context)),
  };
}

const SHOWN = 5;
/** How often an external network is looked at while resources clean up in it. */
const CLEANING_UP_MS = 10_000;

/**
 * Lets a Network go when nothing needs it any more. What refers to an external one would leave its entities behind forever; what refers to a managed one
 * and is being deleted, too, has nothing to clean up, since all of it goes.
 */
async function removeNetwork(resource: NetworkResource, context: NetworkContext, o: ExternalOptions): Promise<Removal> {
  const { external, managed } = resource.spec;
  const isManaged = managed !== undefined;
  const waiting = context.known
    .referrersOf(resource)
    .filter(({ metadata }) => !isManaged || metadata.deletionTimestamp === undefined);
  if (waiting.length > 0) {
    const blocked = { state: "blocked", reason: "InUse", message: inUse(waiting) } as const;
    if (external === undefined || waiting.every(({ metadata }) => metadata.deletionTimestamp === undefined))
      return blocked;
    await keepUsable(resource, external, context, o);
    return { ...blocked, requeueAfterMs: CLEANING_UP_MS };
  }
  const kept = await release(resource, context);
  if (kept.length === 0) return { state: "gone" };
  const note = `kept by spec.managed.retention Retain: ${kept.join(", ")}; a Network of this name takes them up again, delete them by hand otherwise`;
  return { state: "released", events: [{ type: "Normal", reason: "DataRetained", action: "Delete", note }] };
}

function inUse(waiting: readonly AnyResource[]): string {
  const names = waiting.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort();
  const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : "";
  const [who, them] = names.length === 1 ? ["1 resource refers", "it"] : [`${names.length} resources refer`, "them"];
  return `${who} to this Network (${names.slice(0, SHOWN).join(", ")}${more}): delete ${them} first`;
}

/** Ends the connection and takes away what has no owner in the cluster. Answers what stays. */
async function release(resource: NetworkResource, context: NetworkContext): Promise<string[]> {
  await context.networks.remove(refOf(resource));
  const { managed } = resource.spec;
  if (managed === undefined) return [];
  const names = childNames(resource);
  const lasting: readonly (readonly [ResourceKind, string])[] = [
    [KINDS.PersistentVolumeClaim, names.data],
    [KINDS.Secret, names.key],
    [KINDS.Secret, names.admin],
    [KINDS.Secret, names.operator],
  ];
  const kept: string[] = [];
  for (const [kind, name] of lasting) {
    const ref = { kind, namespace: resource.metadata.namespace, name };
    const found = await context.client.get<KubeObject>(ref, { signal: context.signal });
    // What the user has put there is the user's.
    if (found === undefined || !isChild(found, resource)) continue;
    if (managed.retention === "Retain") kept.push(`${kind.kind} ${name}`);
    else await context.client.delete(ref, { signal: context.signal, uid: found.metadata.uid });
  }
  return kept;
}
