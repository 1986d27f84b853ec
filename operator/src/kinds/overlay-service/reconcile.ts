import { type Collection, writable } from "../../entity/collection.ts";
import { entityReconciler, nothingMore } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { overlayServiceKind } from "../../resources/own-kinds.ts";
import { followHosting } from "./hosting-watch.ts";
import { type FoundService, overlayService, type ServiceFields } from "./plan.ts";
import type { OverlayServiceResource } from "./schema.ts";
import { TerminatorCounts } from "./terminator-counts.ts";

export const services: Collection<ServiceFields, FoundService> = {
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

/** A service that nobody hosts is looked at again so soon, should it have been missed that somebody does. */
const UNHOSTED_MS = 60_000;

const terminatorCounts = new TerminatorCounts();

export const overlayServiceReconciler: KindReconciler<OverlayServiceResource> = entityReconciler({
  kind: overlayServiceKind,
  follow: followHosting,
  entity: overlayService,
  collection: services,
  lookUp: nothingMore,
  async tell(client, id, { wasMade }, signal) {
    const terminators = wasMade ? 0 : await terminatorCounts.of(client, id, signal);
    return { terminators, hosted: terminators > 0 };
  },
  lookAgainMs: ({ hosted }) => (hosted ? undefined : UNHOSTED_MS),
});
