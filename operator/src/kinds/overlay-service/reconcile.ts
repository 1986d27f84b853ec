import type { ManagementClient } from "@sallyport/api/client";
import { type OverlayServiceResource, overlayService, overlayServiceKind } from "@sallyport/resources";
import { RequestBatch, services } from "@sallyport/resources/sync";
import { entityReconciler } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
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

/** A service without a host is reconciled again so soon, in case a new terminator was missed. */
const UNHOSTED_MS = 60_000;

const terminatorCounts = new TerminatorCounts();

export const overlayServiceReconciler: KindReconciler<OverlayServiceResource> = entityReconciler({
  kind: overlayServiceKind,
  follow: followHosting,
  entity: overlayService,
  collection: services,
  async statusOf(client, id, { wasMade }, signal) {
    const terminators = wasMade ? 0 : await terminatorCounts.of(client, id, signal);
    return { terminators, hosted: terminators > 0 };
  },
  requeueAfterMs: ({ hosted }) => (hosted ? undefined : UNHOSTED_MS),
});
