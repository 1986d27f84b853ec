import { z } from "zod";
import { base, namedRoles } from "./entity.ts";
import { dialBind, names, namesOrNull, patchOf, semantic, tags } from "./scalars.ts";

const policy = { name: z.string(), semantic, tags: tags.default({}) };

const edgeRouterPolicy = { ...policy, edgeRouterRoles: names.default([]), identityRoles: names.default([]) };
export const edgeRouterPolicyCreate = z.object(edgeRouterPolicy);
export const edgeRouterPolicyUpdate = z.object(edgeRouterPolicy);
export const edgeRouterPolicyPatch = patchOf(edgeRouterPolicy);
export const edgeRouterPolicyDetail = z.strictObject({
  ...base,
  edgeRouterRoles: namesOrNull,
  edgeRouterRolesDisplay: namedRoles,
  identityRoles: namesOrNull,
  identityRolesDisplay: namedRoles,
  isSystem: z.boolean(),
  name: z.string(),
  semantic,
});

const serviceEdgeRouterPolicy = { ...policy, edgeRouterRoles: names.default([]), serviceRoles: names.default([]) };
export const serviceEdgeRouterPolicyCreate = z.object(serviceEdgeRouterPolicy);
export const serviceEdgeRouterPolicyUpdate = z.object(serviceEdgeRouterPolicy);
export const serviceEdgeRouterPolicyPatch = patchOf(serviceEdgeRouterPolicy);
export const serviceEdgeRouterPolicyDetail = z.strictObject({
  ...base,
  edgeRouterRoles: namesOrNull,
  edgeRouterRolesDisplay: namedRoles,
  name: z.string(),
  semantic,
  serviceRoles: namesOrNull,
  serviceRolesDisplay: namedRoles,
});

const servicePolicy = {
  ...policy,
  type: dialBind,
  identityRoles: names.default([]),
  postureCheckRoles: names.default([]),
  serviceRoles: names.default([]),
};
export const servicePolicyCreate = z.object(servicePolicy);
export const servicePolicyUpdate = z.object(servicePolicy);
export const servicePolicyPatch = patchOf(servicePolicy);
export const servicePolicyDetail = z.strictObject({
  ...base,
  identityRoles: namesOrNull,
  identityRolesDisplay: namedRoles,
  name: z.string(),
  postureCheckRoles: namesOrNull,
  postureCheckRolesDisplay: namedRoles,
  semantic,
  serviceRoles: namesOrNull,
  serviceRolesDisplay: namedRoles,
  type: dialBind,
});

/**
 * A role attribute and what uses it, by source: the entities that have it, and the policies that select by it. Every source of the list is there,
 * with a count of 0 where nothing uses it.
 */
export const roleAttributeUsage = z.strictObject({
  roleAttribute: z.string(),
  usage: z.record(z.string(), z.strictObject({ count: z.int(), ids: names.optional() })),
});
