import { isDeepStrictEqual } from "node:util";
import { type Collection, writable } from "../../entity/collection.ts";
import { entityReconciler, noLookUp } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { servicePolicyKind } from "../../resources/own-kinds.ts";
import { type FoundServicePolicy, type ServicePolicyFields, servicePolicy } from "./plan.ts";
import type { ServicePolicyResource } from "./schema.ts";

export const servicePolicies: Collection<ServicePolicyFields, FoundServicePolicy> = {
  list: (client, query, call) => client.listServicePolicies({ query }, call),
  detail: async (client, id, call) => (await client.detailServicePolicy({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createServicePolicy({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateServicePolicy({ params: { id }, body: writable(whole) }, call),
  retag(client, found, tags, call) {
    const fields = {
      type: found.type as "Dial",
      semantic: found.semantic as "AnyOf",
      identityRoles: found.identityRoles ?? [],
      serviceRoles: found.serviceRoles ?? [],
      postureCheckRoles: found.postureCheckRoles ?? [],
    };
    const body = { ...fields, name: found.name, tags };
    return client.updateServicePolicy({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteServicePolicy({ params: { id } }, call),
};

/** What a policy selects, while that changes: resources that were declared together come one after the other. */
const SELECTING_MS = 60_000;

/** Only how many there are is asked for. */
const ONE = { limit: 1 };

const countOf = ({ meta }: { readonly meta: { readonly pagination: { readonly totalCount: number } } }): number =>
  meta.pagination.totalCount;

export const servicePolicyReconciler: KindReconciler<ServicePolicyResource> = entityReconciler({
  kind: servicePolicyKind,
  entity: servicePolicy,
  collection: servicePolicies,
  lookUp: noLookUp,
  keepsStatus: true,
  async statusOf(client, id, { spec }, signal) {
    const input = { params: { id }, query: ONE };
    const checks = [spec.postureCheckRoles, spec.postureCheckRefs, spec.postureCheckIds];
    const hasChecks = checks.some((selectors = []) => selectors.length > 0);
    const [identities, services, postureChecks] = await Promise.all([
      client.listServicePolicyIdentities(input, { signal }).then(countOf),
      client.listServicePolicyServices(input, { signal }).then(countOf),
      hasChecks ? client.listServicePolicyPostureChecks(input, { signal }).then(countOf) : 0,
    ]);
    return { matched: { identities, services, postureChecks } };
  },
  requeueAfterMs: ({ matched }, before) => (isDeepStrictEqual(matched, before.matched) ? undefined : SELECTING_MS),
});
