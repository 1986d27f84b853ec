/**
 * What a Network's `roleScope` makes of attributes and selectors. `Namespaced`: `web` in the namespace `edge` is
 * `edge.web`, and `#all` means all of the namespace, for which every entity has the attribute `edge.all`. A namespace's
 * name holds no dot, so two namespaces never make the same attribute.
 */
export interface RoleScope {
  readonly roleScope: "Global" | "Namespaced";
  readonly namespace: string;
}

const ALL = "all";

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
