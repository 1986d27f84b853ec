import { KubeError } from "../../kube/client/errors.ts";
import { type KubeObject, type ResourceKind, refOf } from "../../kube/kinds.ts";
import { missingMarks, type OwnerName } from "../../render/kept.ts";
import type { ReconcileContext } from "../loop/kind-reconciler.ts";

/**
 * Gives an object without an owner the marks that keep it from being deleted by others, where it lacks them: earlier versions made it without, and a claim
 * has the labels of its StatefulSet's selector besides. Its content is not touched.
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
