import type { ManagementClient } from "../../controller-client/connection.ts";
import { RequestBatch } from "../../controller-client/request-batch.ts";

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
