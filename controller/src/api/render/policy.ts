import {
  type edgeRouterPolicyDetail,
  orNull,
  type serviceEdgeRouterPolicyDetail,
  type servicePolicyDetail,
} from "@sallyport/api";
import type { z } from "zod";
import { namesOf } from "../../model/entity.ts";
import { type PolicyRecord, selectorOf } from "../../model/policy/policies.ts";
import { displayRoles, formatRoles } from "../../model/policy/role-selector.ts";
import type { PolicySide } from "../../model/policy/selection-sql.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { baseOf, type Collection } from "./base.ts";

type PolicyNames = ReadonlyMap<PolicySide, ReadonlyMap<string, string>>;

/** The names of all entities that the policies select by id. */
async function namesIn(deps: ApiDependencies, policies: readonly PolicyRecord[]): Promise<PolicyNames> {
  const names = new Map<PolicySide, ReadonlyMap<string, string>>();
  for (const side of ["identity", "service", "router", "posture_check"] as const) {
    const ids = policies.flatMap((policy) => selectorOf(policy, side).ids);
    names.set(side, await namesOf(deps.ctx.store.db, side, ids));
  }
  return names;
}

function common(collection: Collection, policy: PolicyRecord) {
  const { id, tags, createdAt, updatedAt } = policy;
  return {
    ...baseOf(collection, { id, tags, created_at: createdAt, updated_at: updatedAt }),
    name: policy.name,
    semantic: policy.semantic,
  };
}

function roles(policy: PolicyRecord, side: PolicySide): string[] | null {
  return orNull(formatRoles(selectorOf(policy, side)));
}

function display(policy: PolicyRecord, side: PolicySide, names: PolicyNames): { role: string; name: string }[] {
  return displayRoles(selectorOf(policy, side), names.get(side) ?? new Map());
}

export async function renderServicePolicies(
  deps: ApiDependencies,
  policies: readonly PolicyRecord[],
): Promise<z.input<typeof servicePolicyDetail>[]> {
  const names = await namesIn(deps, policies);
  return policies.map((policy) => ({
    ...common("service-policies", policy),
    identityRoles: roles(policy, "identity"),
    identityRolesDisplay: display(policy, "identity", names),
    postureCheckRoles: roles(policy, "posture_check"),
    postureCheckRolesDisplay: display(policy, "posture_check", names),
    serviceRoles: roles(policy, "service"),
    serviceRolesDisplay: display(policy, "service", names),
    type: policy.type ?? "Dial",
  }));
}

export async function renderEdgeRouterPolicies(
  deps: ApiDependencies,
  policies: readonly PolicyRecord[],
): Promise<z.input<typeof edgeRouterPolicyDetail>[]> {
  const names = await namesIn(deps, policies);
  return policies.map((policy) => ({
    ...common("edge-router-policies", policy),
    edgeRouterRoles: roles(policy, "router"),
    edgeRouterRolesDisplay: display(policy, "router", names),
    identityRoles: roles(policy, "identity"),
    identityRolesDisplay: display(policy, "identity", names),
    isSystem: policy.isSystem,
  }));
}

export async function renderServiceEdgeRouterPolicies(
  deps: ApiDependencies,
  policies: readonly PolicyRecord[],
): Promise<z.input<typeof serviceEdgeRouterPolicyDetail>[]> {
  const names = await namesIn(deps, policies);
  return policies.map((policy) => ({
    ...common("service-edge-router-policies", policy),
    edgeRouterRoles: roles(policy, "router"),
    edgeRouterRolesDisplay: display(policy, "router", names),
    serviceRoles: roles(policy, "service"),
    serviceRolesDisplay: display(policy, "service", names),
  }));
}
