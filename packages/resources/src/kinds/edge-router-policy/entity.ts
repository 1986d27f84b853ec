import { type Collection, writable } from "../../entity/collection.ts";
import { type EntityKind, type FoundEntity, sameSet } from "../../entity/plan.ts";
import { named, renderSelector } from "../../entity/references.ts";
import type { EdgeRouterPolicySpec } from "./schema.ts";

interface EdgeRouterPolicyFields {
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
    const router = renderSelector(spec, "edgeRouter", routers(spec), surroundings);
    const identity = renderSelector(spec, "identity", identities(spec), surroundings);
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

export const edgeRouterPolicies: Collection<EdgeRouterPolicyFields, FoundEdgeRouterPolicy> = {
  list: (client, query, call) => client.listEdgeRouterPolicies({ query }, call),
  detail: (client, id, call) => client.detailEdgeRouterPolicy({ params: { id } }, call),
  create: async (client, body, call) => (await client.createEdgeRouterPolicy({ body: writable(body) }, call)).data.id,
  replace: (client, { id }, body, call) =>
    client.updateEdgeRouterPolicy({ params: { id }, body: writable(body) }, call),
  fieldsOf: (found) => ({
    semantic: found.semantic as "AnyOf",
    edgeRouterRoles: found.edgeRouterRoles ?? [],
    identityRoles: found.identityRoles ?? [],
  }),
  delete: (client, id, call) => client.deleteEdgeRouterPolicy({ params: { id } }, call),
};
