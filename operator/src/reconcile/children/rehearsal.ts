import { KubeError } from "../../kube/client/errors.ts";
import type { KubeObject } from "../../kube/kinds.ts";
import { conditionOf } from "../../kube/status/condition.ts";
import type { AnyResource, ReconcileContext } from "../loop/kind-reconciler.ts";
import { isRefusedObject } from "../loop/trouble.ts";

/** Whether the spec is new, or was refused when it was tried. */
export function isUntried({ metadata, status }: AnyResource): boolean {
  const isNew = status.observedGeneration !== metadata.generation;
  return isNew || conditionOf(status.conditions, "Ready")?.reason === "ObjectRefused";
}

/**
 * Asks the API server what it would say to an object. Of a pod's template and of a Service it alone knows all the rules, and a spec that it refuses shall be followed
 * nowhere: neither in part, nor in the network.
 *
 * @throws KubeError with the field and what is wrong with it
 */
export async function rehearse(
  object: KubeObject,
  { client, signal, log }: Pick<ReconcileContext, "client" | "signal" | "log">,
): Promise<void> {
  try {
    await client.apply(object, { dryRun: true, signal });
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof KubeError)) throw error;
    if (isRefusedObject(error) && !NO_REHEARSALS.test(error.message)) throw error;
    // A right that lacks, a server that is away, a webhook that takes no rehearsals: the write itself tells.
    log.debug({ err: error }, "the server does not say what it would do");
  }
}

const NO_REHEARSALS = /does not support dry run/i;
