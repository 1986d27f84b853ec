import type { ManagementClient } from "@sallyport/api/client";
import { type OverlayServiceResource, overlayService, overlayServiceKind } from "@sallyport/resources";
import { RequestBatch, services } from "@sallyport/resources/sync";
import { entityReconciler } from "../../entity/reconcile.ts";
import { conditionOf } from "../../kube/conditions.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { HostingReasons, NOT_HOSTED } from "./hosting-reasons.ts";
import { followHosting } from "./hosting-watch.ts";

/** Only how many there are is asked for. */
const ONE = { limit: 1 };
/** As many as a server gives at once. */
const PAGE = { limit: 500 };

/** How many terminators services have: asked for with one request for many services, where they have few. */
export class TerminatorCounts {
  readonly #batches = new WeakMap<ManagementClient, RequestBatch<string, number>>();

  async of(client: ManagementClient, serviceId: string, signal: AbortSignal): Promise<number> {
    const batch = this.#batches.get(client) ?? batchOf(client);
    this.#batches.set(client, batch);
    return await batch.ask(serviceId, signal);
  }
}

function batchOf(client: ManagementClient): RequestBatch<string, number> {
  const one = async (id: string): Promise<number> =>
    (await client.listServiceTerminators({ params: { id }, query: ONE })).meta.pagination.totalCount;
  return new RequestBatch({
    one,
    async many(ids) {
      const filter = `service in ${JSON.stringify(ids)}`;
      const { data, meta } = await client.listTerminators({ query: { ...PAGE, filter } });
      if (meta.pagination.totalCount > data.length) return await Promise.all(ids.map(one));
      const counts = new Map<string, number>();
      for (const { serviceId } of data) counts.set(serviceId, (counts.get(serviceId) ?? 0) + 1);
      return ids.map((id) => counts.get(id) ?? 0);
    },
    lengthOf: (id) => id.length,
  });
}

/** A service that has just lost its host, or has none yet, is reconciled again so soon: to say why. */
const NEWLY_UNHOSTED_MS = 60_000;
/** The reason may become another one, and a new terminator may have been missed. */
const UNHOSTED_MS = 300_000;

const HOSTED = "Hosted";

const terminatorCounts = new TerminatorCounts();
const hostingReasons = new HostingReasons();

export const overlayServiceReconciler: KindReconciler<OverlayServiceResource> = entityReconciler({
  kind: overlayServiceKind,
  follow: followHosting,
  entity: overlayService,
  collection: services,
  async statusOf(client, id, { wasMade }, signal) {
    const terminators = wasMade ? 0 : await terminatorCounts.of(client, id, signal);
    return { terminators, hosted: terminators > 0 };
  },
  async conditionsOf(client, id, { status: { hosted, terminators = 0 }, previous }, signal) {
    if (hosted === true) {
      const message = `hosted by ${terminators} ${terminators === 1 ? "terminator" : "terminators"}`;
      return [{ type: HOSTED, status: "True", reason: "Hosted", message }];
    }
    const before = conditionOf(previous, HOSTED);
    const known = before?.status === "False" ? before : NOT_HOSTED;
    const { reason, message } = await hostingReasons.of(client, id, known, signal);
    return [{ type: HOSTED, status: "False", reason, message }];
  },
  requeueAfterMs: ({ hosted }, before) => {
    if (hosted === true) return undefined;
    return before.hosted === false ? UNHOSTED_MS : NEWLY_UNHOSTED_MS;
  },
});
