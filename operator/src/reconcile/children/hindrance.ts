import { KINDS } from "../../kube/kinds.ts";
import { type FoundEvent, type Hindrance, hinderedObject, hindranceOf, type Workload } from "../../plan/hindrance.ts";
import type { ReconcileContext } from "../loop/kind-reconciler.ts";

/**
 * Why a workload gets no pod, or its pod no volume: a quota, the standard of the namespace, a storage class that is not there. Kubernetes tells that in
 * events alone. They are read only while there is something to explain; where that fails nothing is explained.
 */
export async function findHindrance(
  workload: Workload,
  { client, signal, log }: Pick<ReconcileContext, "client" | "signal" | "log">,
): Promise<Hindrance | undefined> {
  const of = hinderedObject(workload);
  if (of === undefined) return undefined;
  const { namespace, name } = of.metadata;
  const fieldSelector = `regarding.kind=${of.kind},regarding.name=${name}`;
  try {
    const { items } = await client.list<FoundEvent>(KINDS.Event, namespace, { fieldSelector, signal });
    return hindranceOf(of, items);
  } catch (error) {
    signal.throwIfAborted();
    log.debug({ err: error }, "events that would say why there is no pod can't be read");
    return undefined;
  }
}
