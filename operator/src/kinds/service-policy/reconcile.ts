import { isDeepStrictEqual } from "node:util";
import { type ServicePolicyResource, servicePolicy, servicePolicyKind } from "@sallyport/resources";
import { servicePolicies } from "@sallyport/resources/sync";
import { entityReconciler } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";

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
