/** How the `#` entries of a policy combine. */
export type Semantic = "AllOf" | "AnyOf";

/** One role list of a policy, taken apart: `#all`, `#attribute`, `@id`. */
export interface RoleSelector {
  readonly all: boolean;
  readonly attrs: readonly string[];
  readonly ids: readonly string[];
}

/** An identity, service, edge router or posture check, as far as selectors see it. */
export interface Attributed {
  readonly id: string;
  readonly attrs: readonly string[];
}

/**
 * Does the list select the entity? An `@id` always does, also under AllOf; `#all` selects everything; AllOf wants every attribute, AnyOf one; a list without
 * entries selects nothing. Source: docs/protocol/policy.md.
 */
export function matches(selector: RoleSelector, semantic: Semantic, entity: Attributed): boolean {
  if (selector.all || selector.ids.includes(entity.id)) return true;
  const { attrs } = selector;
  if (attrs.length === 0) return false;
  const has = (attr: string) => entity.attrs.includes(attr);
  return semantic === "AllOf" ? attrs.every(has) : attrs.some(has);
}
