import { idsOf, type MissingReference, type Reference, type ResolvedReferences } from "./references.ts";

/**
 * What a Network's `roleScope` makes of attributes and selectors. `Namespaced`: `web` in the namespace `edge` is
 * `edge.web`, and `#all` means all of the namespace, for which every entity has the attribute `edge.all`. A namespace's
 * name holds no dot, so two namespaces never make the same attribute.
 */
export interface RoleScope {
  readonly roleScope: "Global" | "Namespaced";
  /** Resources of the namespace may reach nothing beyond it, whatever the scope is. */
  readonly isTenant?: boolean | undefined;
  readonly namespace: string;
}

const ALL = "all";

/** Fields that select by attribute, or are selected by it, in the whole network. Selectors of posture checks are left out, because they only restrict. */
const ATTRIBUTE_FIELDS = ["roleAttributes", "identityRoles", "serviceRoles", "edgeRouterRoles"] as const;

/** The first field by which a spec reaches beyond a tenant's namespace; none where attributes are those of the namespace. */
export function reachingField(spec: object, { roleScope, isTenant = false }: RoleScope): string | undefined {
  if (!isTenant || roleScope === "Namespaced") return undefined;
  const fields = spec as Readonly<Record<string, unknown>>;
  return ATTRIBUTE_FIELDS.find((name) => Array.isArray(fields[name]) && fields[name].length > 0);
}

/** Attributes of an entity as the network has them: a sorted set. */
export function scopedAttributes(attributes: readonly string[] | undefined, scope: RoleScope): string[] {
  const given = attributes ?? [];
  if (scope.roleScope === "Global") return sortedSet(given);
  return sortedSet([...given, ALL].map((attribute) => `${scope.namespace}.${attribute}`));
}

/** Selectors of a policy by attribute (`#web`) as the network has them: a sorted set. */
export function scopedSelectors(roles: readonly string[] | undefined, scope: RoleScope): string[] {
  const given = roles ?? [];
  if (scope.roleScope === "Global") return sortedSet(given);
  return sortedSet(given.map((role) => `#${scope.namespace}.${role.slice(1)}`));
}

export function sortedSet(values: readonly string[]): string[] {
  return [...new Set(values)].sort();
}

/** The ways in which a policy's spec names entities of one sort. */
interface SelectorFields {
  readonly roles: readonly string[] | undefined;
  readonly references: readonly Reference[];
  readonly ids: readonly string[] | undefined;
}

interface RenderedSelector {
  /** A sorted set, as the API takes it. */
  readonly roles: readonly string[];
  readonly missing: readonly MissingReference[];
}

/** One role list of a policy: attributes as they are scoped, resources and ids as `@id`. */
export function renderSelector(
  fields: SelectorFields,
  { scope, references }: { readonly scope: RoleScope; readonly references: ResolvedReferences },
): RenderedSelector {
  const { ids, missing } = idsOf(fields.references, references);
  const byId = [...ids, ...(fields.ids ?? [])].map((id) => `@${id}`);
  return { roles: sortedSet([...scopedSelectors(fields.roles, scope), ...byId]), missing };
}
