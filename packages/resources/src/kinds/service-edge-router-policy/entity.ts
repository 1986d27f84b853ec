import { type Collection, writable } from "../../entity/collection.ts";
import { type EntityKind, type FoundEntity, sameSet } from "../../entity/plan.ts";
import { named, renderSelector } from "../../entity/references.ts";
import type { ServiceEdgeRouterPolicySpec } from "./schema.ts";

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
    const router = renderSelector(spec, "edgeRouter", routers(spec), surroundings);
    const service = renderSelector(spec, "service", services(spec), surroundings);
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
  detail: (client, id, call) => client.detailServiceEdgeRouterPolicy({ params: { id } }, call),
  create: async (client, body, call) =>
    (await client.createServiceEdgeRouterPolicy({ body: writable(body) }, call)).data.id,
  replace: (client, { id }, body, call) =>
    client.updateServiceEdgeRouterPolicy({ params: { id }, body: writable(body) }, call),
  fieldsOf: (found) => ({
    semantic: found.semantic as "AnyOf",
    edgeRouterRoles: found.edgeRouterRoles ?? [],
    serviceRoles: found.serviceRoles ?? [],
  }),
  delete: (client, id, call) => client.deleteServiceEdgeRouterPolicy({ params: { id } }, call),
};
