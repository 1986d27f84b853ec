import { dryRun, isUntried } from "../../../children/apply.ts";
import type { FoundStatefulSet } from "../../../children/workload.ts";
import { KINDS, type KubeObject } from "../../../kube/kinds.ts";
import type { Controllers } from "../../network/interface.ts";
import { conflictsOf, isFormer, workloadOf } from "../plan/step.ts";
import { edgeServiceName, routerName } from "../render/names.ts";
import { edgeService } from "../render/services.ts";
import type { EdgeRouterResource } from "../schema.ts";
import type { ChildReader, RouterContext } from "./child-reader.ts";

/** The first router stands for all: they differ in names only. */
const FIRST = 0;

/**
 * Has the API server look at what a spec that was not followed yet comes to, before the network hears of it.
 *
 * @throws KubeError with the field and what is wrong with it
 */
export async function rehearseRouter(
  resource: EdgeRouterResource,
  { image, controllers }: { readonly image: string; readonly controllers: Controllers },
  context: RouterContext,
  reader: ChildReader,
): Promise<void> {
  const { metadata, spec } = resource;
  if (spec.replicas === 0 || !isUntried(resource)) return;
  const { namespace, name } = metadata;
  // What is somebody else's is not written in the end.
  const isOurs = (found: KubeObject | undefined) =>
    !isFormer(resource, found) && conflictsOf(resource, [found]).length === 0;
  const workload = { kind: KINDS.StatefulSet, namespace, name: routerName(name, FIRST) };
  const statefulSet = await reader.find<FoundStatefulSet>(context, workload, true);
  const parts = { ordinal: FIRST, id: "id", configHash: "", image, controllers, statefulSet };
  if (isOurs(statefulSet)) await dryRun(workloadOf(resource, parts), context);
  const wanted = edgeService(resource, FIRST);
  if (wanted === undefined) return;
  const service = { kind: KINDS.Service, namespace, name: edgeServiceName(name, FIRST) };
  if (isOurs(await reader.find(context, service, true))) await dryRun(wanted, context);
}
