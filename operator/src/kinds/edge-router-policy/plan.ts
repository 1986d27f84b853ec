import { type EntityKind, type FoundEntity, sameSet } from "../../entity/plan.ts";
import { named } from "../../entity/references.ts";
import { renderSelector } from "../../entity/roles.ts";
import type { EdgeRouterPolicySpec } from "./schema.ts";

export interface EdgeRouterPolicyFields {
  readonly semantic: "AnyOf" | "AllOf";
  readonly edgeRouterRoles: readonly string[];
  readonly identityRoles: readonly string[];
}

export interface FoundEdgeRouterPolicy extends FoundEntity {
  readonly semantic: string;
  readonly edgeRouterRoles?: readonly string[] | null;
  readonly identityRoles?: readonly string[] | null;
  readonly isSystem?: boolean;
}

const routers = (spec: EdgeRouterPolicySpec) => named("EdgeRouter", spec.edgeRouterRefs);
const identities = (spec: EdgeRouterPolicySpec) => named("Identity", spec.identityRefs);

export const edgeRouterPolicy: EntityKind<EdgeRouterPolicySpec, EdgeRouterPolicyFields, FoundEdgeRouterPolicy> = {
  noun: "edge router policy",
  references: (spec) => [...routers(spec), ...identities(spec)],
  idFields: ["edgeRouterIds", "identityIds"],
  desired(spec, surroundings) {
    const router = renderSelector(
      { roles: spec.edgeRouterRoles, references: routers(spec), ids: spec.edgeRouterIds },
      surroundings,
    );
    const identity = renderSelector(
      { roles: spec.identityRoles, references: identities(spec), ids: spec.identityIds },
      surroundings,
    );
    return {
      fields: { semantic: spec.semantic, edgeRouterRoles: router.roles, identityRoles: identity.roles },
      missing: [...router.missing, ...identity.missing],
    };
  },
  same: {
    semantic: (wanted, found) => wanted === found.semantic,
    edgeRouterRoles: (wanted, found) => sameSet(wanted, found.edgeRouterRoles),
    identityRoles: (wanted, found) => sameSet(wanted, found.identityRoles),
  },
  refusal: (found) =>
    found.isSystem === true ? "is made and kept by the controller itself: it can't be taken over" : undefined,
};
