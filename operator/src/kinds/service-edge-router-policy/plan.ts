import { type EntityKind, type FoundEntity, sameSet } from "../../entity/plan.ts";
import { named } from "../../entity/references.ts";
import { renderSelector } from "../../entity/roles.ts";
import type { ServiceEdgeRouterPolicySpec } from "./schema.ts";

export interface ServiceEdgeRouterPolicyFields {
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
