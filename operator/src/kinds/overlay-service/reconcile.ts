import type { ManagementClient } from "../../controller-client/connection.ts";
import { RequestBatch } from "../../controller-client/request-batch.ts";
import { type Collection, writable } from "../../entity/collection.ts";
import { entityReconciler, noLookUp } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { overlayServiceKind } from "../../resources/own-kinds.ts";
import { followHosting } from "./hosting-watch.ts";
import { type FoundOverlayService, overlayService, type ServiceFields } from "./plan.ts";
import type { OverlayServiceResource } from "./schema.ts";

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

export const services: Collection<ServiceFields, FoundOverlayService> = {
  list: (client, query, call) => client.listServices({ query }, call),
  detail: async (client, id, call) => (await client.detailService({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createService({ body: writable(body) }, call)).data.id,
  // Some servers take another value here, though it is fixed when a service is made.
  change: (client, { found, whole }, call) => {
    const body = { ...whole, encryptionRequired: found.encryptionRequired ?? whole.encryptionRequired };
    return client.updateService({ params: { id: found.id }, body: writable(body) }, call);
  },
  retag(client, found, tags, call) {
    const fields = {
      encryptionRequired: found.encryptionRequired ?? true,
      roleAttributes: found.roleAttributes ?? [],
      configs: found.configs ?? [],
      terminatorStrategy: found.terminatorStrategy ?? "",
      maxIdleTimeMillis: found.maxIdleTimeMillis ?? 0,
    };
    const body = { ...fields, name: found.name, tags };
    return client.updateService({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteService({ params: { id } }, call),
};

/** A service without a host is reconciled again so soon, in case a new terminator was missed. */
const UNHOSTED_MS = 60_000;

const terminatorCounts = new TerminatorCounts();

export const overlayServiceReconciler: KindReconciler<OverlayServiceResource> = entityReconciler({
  kind: overlayServiceKind,
  follow: followHosting,
  entity: overlayService,
  collection: services,
  lookUp: noLookUp,
  async statusOf(client, id, { wasMade }, signal) {
    const terminators = wasMade ? 0 : await terminatorCounts.of(client, id, signal);
    return { terminators, hosted: terminators > 0 };
  },
  requeueAfterMs: ({ hosted }) => (hosted ? undefined : UNHOSTED_MS),
});
