import { KubeError } from "../../kube/client/errors.ts";
import { type KubeObject, type ResourceKind, refOf } from "../../kube/kinds.ts";
import { missingMarks, type OwnerName } from "../../render/kept.ts";
import type { ReconcileContext } from "../loop/kind-reconciler.ts";

/**
 * Adds the marks that protect an object without an owner where they are missing: on objects of earlier versions, and on claims, which get the labels of
 * their StatefulSet's selector. The content stays as it is.
 */
export async function markKept(
  kind: ResourceKind,
  object: KubeObject,
  owner: OwnerName,
  { client, signal, admissions }: Pick<ReconcileContext, "client" | "signal" | "admissions">,
): Promise<void> {
  const { namespace, name, uid, deletionTimestamp } = object.metadata;
  const marks = missingMarks(object.metadata, owner);
  if (marks === undefined || deletionTimestamp !== undefined) return;
  const metadata = { name, namespace, ...marks };
  const wanted = { apiVersion: object.apiVersion, kind: object.kind, metadata } as KubeObject;
  if (admissions.isThere(object, wanted)) return;
  try {
    const answer = await client.patch(refOf(kind, object), { metadata: { ...marks, uid } }, { signal });
    admissions.wrote(wanted, answer);
  } catch (error) {
    // It went meanwhile, or another one has its name by now: that one is seen at the next look.
    if (!(error instanceof KubeError) || !(error.isNotFound || error.isConflict)) throw error;
  }
}
