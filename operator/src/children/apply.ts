import type { BaseStatus } from "@sallyport/resources";
import type { Logger } from "@sallyport/wire";
import type { KubeClient } from "../kube/client/client.ts";
import { isRefusedObject, KubeError } from "../kube/client/errors.ts";
import { conditionOf } from "../kube/conditions.ts";
import { type KubeObject, type ResourceKind, refOf } from "../kube/kinds.ts";
import type { Admissions } from "./intent.ts";
import { missingMarks, type OwnerName } from "./owner-marks.ts";

/** What reconcilers lend to those that write their children. */
export interface ChildContext {
  readonly client: KubeClient;
  readonly admissions: Admissions;
  readonly signal: AbortSignal;
  readonly log: Logger;
}

/** Applies an object, and remembers what the server makes of it. */
export async function applyChild<T extends KubeObject>(
  intended: KubeObject,
  { client, signal, admissions, log }: Pick<ChildContext, "client" | "signal" | "admissions" | "log">,
): Promise<T> {
  const answer = await client.apply<T>(intended, { signal });
  if (admissions.wrote(intended, answer)) {
    const { kind, metadata } = intended;
    const text =
      "the API server keeps an object in another form than it was asked for; it is left as admission wants it";
    log.info({ child: `${kind} ${metadata.name}` }, text);
  }
  return answer;
}

/** Whether the spec is new, or was refused when it was tried. */
export function isUntried({
  metadata,
  status,
}: {
  readonly metadata: { readonly generation: number };
  readonly status: BaseStatus;
}): boolean {
  const isNew = status.observedGeneration !== metadata.generation;
  return isNew || conditionOf(status.conditions, "Ready")?.reason === "ObjectRefused";
}

/**
 * Asks the API server what it would say to an object. Of a pod's template and of a Service it alone knows all the rules, and a spec that it refuses shall be followed
 * nowhere: neither in part, nor in the network.
 *
 * @throws KubeError with the field and what is wrong with it
 */
export async function dryRun(
  object: KubeObject,
  { client, signal, log }: Pick<ChildContext, "client" | "signal" | "log">,
): Promise<void> {
  try {
    await client.apply(object, { dryRun: true, signal });
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof KubeError)) throw error;
    if (isRefusedObject(error) && !NO_DRY_RUN.test(error.message)) throw error;
    // A right that lacks, a server that is away, a webhook without dry runs: the write itself tells.
    log.debug({ err: error }, "the server does not say what it would do");
  }
}

const NO_DRY_RUN = /does not support dry run/i;

/**
 * Adds the marks that protect an object without an owner where they are missing: on objects of earlier versions, and on claims, which get the labels of
 * their StatefulSet's selector. The content stays as it is.
 */
export async function markKept(
  kind: ResourceKind,
  object: KubeObject,
  owner: OwnerName,
  { client, signal, admissions }: Pick<ChildContext, "client" | "signal" | "admissions">,
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
