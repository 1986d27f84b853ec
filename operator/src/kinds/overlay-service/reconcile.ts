import type { ManagementClient } from "../../controller-client/connection.ts";
import { RequestBatch } from "../../controller-client/request-batch.ts";
import { type Collection, writable } from "../../entity/collection.ts";
import { type EntityKind, type FoundEntity, sameSet } from "../../entity/plan.ts";
import { entityReconciler } from "../../entity/reconcile.ts";
import { configReferences, configsOf, scopedAttributes } from "../../entity/references.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { overlayServiceKind } from "../../resources/group.ts";
import { followHosting } from "./hosting-watch.ts";
import type { OverlayServiceResource, OverlayServiceSpec } from "./schema.ts";

interface ServiceFields {
  readonly encryptionRequired: boolean;
  readonly roleAttributes: readonly string[];
  readonly configs: readonly string[];
  readonly terminatorStrategy: string;
  readonly maxIdleTimeMillis: number;
}

export interface FoundOverlayService extends FoundEntity {
  readonly encryptionRequired?: boolean;
  readonly roleAttributes?: readonly string[] | null;
  readonly configs?: readonly string[] | null;
  readonly terminatorStrategy?: string;
  readonly maxIdleTimeMillis?: number;
}

const USUAL_STRATEGY = "smartrouting";

export const overlayService: EntityKind<OverlayServiceSpec, ServiceFields, FoundOverlayService> = {
  noun: "service",
  references: configReferences,
  idFields: ["configIds"],
  desired(spec, { scope, references }) {
    const { configs, missing } = configsOf(spec, references);
    return {
      fields: {
        encryptionRequired: spec.encryptionRequired,
        roleAttributes: scopedAttributes(spec.roleAttributes, scope),
        configs,
        terminatorStrategy: spec.terminatorStrategy,
        maxIdleTimeMillis: spec.maxIdleTimeMillis ?? 0,
      },
      missing,
      // A service that lost one of its configs for a while would not be intercepted or hosted any more.
      whileMissing: (found) => ({ configs: found.configs ?? [] }),
    };
  },
  same: {
    encryptionRequired: (wanted, found) => wanted === (found.encryptionRequired ?? wanted),
    roleAttributes: (wanted, found) => sameSet(wanted, found.roleAttributes),
    configs: (wanted, found) => sameSet(wanted, found.configs),
    terminatorStrategy: (wanted, found) => wanted === (found.terminatorStrategy || USUAL_STRATEGY),
    maxIdleTimeMillis: (wanted, found) => wanted === (found.maxIdleTimeMillis ?? 0),
  },
  // Fixed when the service is made: servers take a change and drop it. Who asks for encryption must not believe that there is some.
  refusal: ({ encryptionRequired: there = true }, { encryptionRequired: wanted }) =>
    there === wanted
      ? undefined
      : `was made ${there ? "with" : "without"} encryptionRequired, which can't be changed: delete it in the network to have it made again, or give the resource another name there`,
};

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
  replace: (client, found, body, call) => {
    const { encryptionRequired = body.encryptionRequired } = found;
    const kept = { ...body, encryptionRequired };
    return client.updateService({ params: { id: found.id }, body: writable(kept) }, call);
  },
  fieldsOf: (found) => ({
    encryptionRequired: found.encryptionRequired ?? true,
    roleAttributes: found.roleAttributes ?? [],
    configs: found.configs ?? [],
    terminatorStrategy: found.terminatorStrategy ?? "",
    maxIdleTimeMillis: found.maxIdleTimeMillis ?? 0,
  }),
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
  async statusOf(client, id, { wasMade }, signal) {
    const terminators = wasMade ? 0 : await terminatorCounts.of(client, id, signal);
    return { terminators, hosted: terminators > 0 };
  },
  requeueAfterMs: ({ hosted }) => (hosted ? undefined : UNHOSTED_MS),
});
