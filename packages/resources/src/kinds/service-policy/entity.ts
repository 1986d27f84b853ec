import { type Collection, writable } from "../../entity/collection.ts";
import { type EntityKind, type FoundEntity, sameSet } from "../../entity/plan.ts";
import { named, renderSelector, sortedSet } from "../../entity/references.ts";
import type { ServicePolicySpec } from "./schema.ts";

interface ServicePolicyFields {
  readonly type: "Dial" | "Bind";
  readonly semantic: "AnyOf" | "AllOf";
  readonly identityRoles: readonly string[];
  readonly serviceRoles: readonly string[];
  readonly postureCheckRoles: readonly string[];
}

export interface FoundServicePolicy extends FoundEntity {
  readonly type: string;
  readonly semantic: string;
  readonly identityRoles?: readonly string[] | null;
  readonly serviceRoles?: readonly string[] | null;
  readonly postureCheckRoles?: readonly string[] | null;
}

/** A router's tunneler is the identity that has the router's id. */
const identities = (spec: ServicePolicySpec) => [
  ...named("Identity", spec.identityRefs),
  ...named("EdgeRouter", spec.edgeRouterRefs),
];
const services = (spec: ServicePolicySpec) => named("OverlayService", spec.serviceRefs);
const checks = (spec: ServicePolicySpec) => named("PostureCheck", spec.postureCheckRefs);

export const servicePolicy: EntityKind<ServicePolicySpec, ServicePolicyFields, FoundServicePolicy> = {
  noun: "service policy",
  references: (spec) => [...identities(spec), ...services(spec), ...checks(spec)],
  // Checks only restrict: those of any owner will do.
  idFields: ["identityIds", "serviceIds"],
  desired(spec, surroundings) {
    const identity = renderSelector(spec, "identity", identities(spec), surroundings);
    const service = renderSelector(spec, "service", services(spec), surroundings);
    const check = renderSelector(spec, "postureCheck", checks(spec), surroundings);
    const isWithoutCheck = check.missing.length > 0;
    return {
      fields: {
        type: spec.type,
        semantic: spec.semantic,
        identityRoles: identity.roles,
        serviceRoles: service.roles,
        postureCheckRoles: check.roles,
      },
      missing: [...identity.missing, ...service.missing, ...check.missing],
      // Fewer identities and services grant less, so a revocation never waits; fewer checks would grant more.
      whileMissing: (found) => (isWithoutCheck ? { postureCheckRoles: stricter(check.roles, found) } : {}),
    };
  },
  same: {
    type: (wanted, found) => wanted === found.type,
    semantic: (wanted, found) => wanted === found.semantic,
    identityRoles: (wanted, found) => sameSet(wanted, found.identityRoles),
    serviceRoles: (wanted, found) => sameSet(wanted, found.serviceRoles),
    postureCheckRoles: (wanted, found) => sameSet(wanted, found.postureCheckRoles),
  },
};

/** What is asked for at present stays, and what is known of the new checks joins it. */
function stricter(wanted: readonly string[], { postureCheckRoles }: FoundServicePolicy): readonly string[] {
  const present = postureCheckRoles ?? [];
  return [wanted, present].find((roles) => roles.includes("#all")) ?? sortedSet([...wanted, ...present]);
}

export const servicePolicies: Collection<ServicePolicyFields, FoundServicePolicy> = {
  list: (client, query, call) => client.listServicePolicies({ query }, call),
  detail: (client, id, call) => client.detailServicePolicy({ params: { id } }, call),
  create: async (client, body, call) => (await client.createServicePolicy({ body: writable(body) }, call)).data.id,
  replace: (client, { id }, body, call) => client.updateServicePolicy({ params: { id }, body: writable(body) }, call),
  fieldsOf: (found) => ({
    type: found.type as "Dial",
    semantic: found.semantic as "AnyOf",
    identityRoles: found.identityRoles ?? [],
    serviceRoles: found.serviceRoles ?? [],
    postureCheckRoles: found.postureCheckRoles ?? [],
  }),
  delete: (client, id, call) => client.deleteServicePolicy({ params: { id } }, call),
};
