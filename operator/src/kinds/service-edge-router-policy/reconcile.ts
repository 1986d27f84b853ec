import { type Collection, writable } from "../../entity/collection.ts";
import { type EntityKind, type FoundEntity, sameSet } from "../../entity/plan.ts";
import { entityReconciler, noLookUp } from "../../entity/reconcile.ts";
import { named, renderSelector } from "../../entity/references.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { serviceEdgeRouterPolicyKind } from "../../resources/group.ts";
import type { ServiceEdgeRouterPolicyResource, ServiceEdgeRouterPolicySpec } from "./schema.ts";

interface ServiceEdgeRouterPolicyFields {
  readonly semantic: "AnyOf" | "AllOf";
  readonly edgeRouterRoles: readonly string[];
  readonly serviceRoles: readonly string[];
}

export interface FoundServiceEdgeRouterPolicy extends FoundEntity {
  readonly semantic: string;
  readonly edgeRouterRoles?: readonly string[] | null;
  readonly serviceRoles?: readonly string[] | null;
}

const routers = (spec: ServiceEdgeRouterPolicySpec) => named("EdgeRouter", spec.edgeRouterRefs);
const services = (spec: ServiceEdgeRouterPolicySpec) => named("OverlayService", spec.serviceRefs);

export const serviceEdgeRouterPolicy: EntityKind<
  ServiceEdgeRouterPolicySpec,
  ServiceEdgeRouterPolicyFields,
  FoundServiceEdgeRouterPolicy
> = {
  noun: "service edge router policy",
  references: (spec) => [...routers(spec), ...services(spec)],
  idFields: ["edgeRouterIds", "serviceIds"],
  desired(spec, surroundings) {
    const router = renderSelector(
      { roles: spec.edgeRouterRoles, references: routers(spec), ids: spec.edgeRouterIds },
      surroundings,
    );
    const service = renderSelector(
      { roles: spec.serviceRoles, references: services(spec), ids: spec.serviceIds },
      surroundings,
    );
    return {
      fields: { semantic: spec.semantic, edgeRouterRoles: router.roles, serviceRoles: service.roles },
      missing: [...router.missing, ...service.missing],
    };
  },
  same: {
    semantic: (wanted, found) => wanted === found.semantic,
    edgeRouterRoles: (wanted, found) => sameSet(wanted, found.edgeRouterRoles),
    serviceRoles: (wanted, found) => sameSet(wanted, found.serviceRoles),
  },
};

export const serviceEdgeRouterPolicies: Collection<ServiceEdgeRouterPolicyFields, FoundServiceEdgeRouterPolicy> = {
  list: (client, query, call) => client.listServiceEdgeRouterPolicies({ query }, call),
  detail: async (client, id, call) => (await client.detailServiceEdgeRouterPolicy({ params: { id } }, call)).data,
  create: async (client, body, call) =>
    (await client.createServiceEdgeRouterPolicy({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateServiceEdgeRouterPolicy({ params: { id }, body: writable(whole) }, call),
  retag(client, found, tags, call) {
    const fields = {
      semantic: found.semantic as "AnyOf",
      edgeRouterRoles: found.edgeRouterRoles ?? [],
      serviceRoles: found.serviceRoles ?? [],
    };
    const body = { ...fields, name: found.name, tags };
    return client.updateServiceEdgeRouterPolicy({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteServiceEdgeRouterPolicy({ params: { id } }, call),
};

export const serviceEdgeRouterPolicyReconciler: KindReconciler<ServiceEdgeRouterPolicyResource> = entityReconciler({
  kind: serviceEdgeRouterPolicyKind,
  entity: serviceEdgeRouterPolicy,
  collection: serviceEdgeRouterPolicies,
  lookUp: noLookUp,
});
