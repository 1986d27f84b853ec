import type { Surroundings } from "./entity-plan.ts";
import { idsOf, type MissingReference, type Reference } from "./references.ts";
import { scopedSelectors, sortedSet } from "./role-scope.ts";

/** The ways in which a policy's spec names entities of one sort. */
export interface SelectorFields {
  readonly roles: readonly string[] | undefined;
  readonly references: readonly Reference[];
  readonly ids: readonly string[] | undefined;
}

export interface RenderedSelector {
  /** A sorted set, as the API takes it. */
  readonly roles: readonly string[];
  readonly missing: readonly MissingReference[];
}

/** One role list of a policy: attributes as they are scoped, resources and ids as `@id`. */
export function renderSelector(fields: SelectorFields, { scope, references }: Surroundings): RenderedSelector {
  const { ids, missing } = idsOf(fields.references, references);
  const byId = [...ids, ...(fields.ids ?? [])].map((id) => `@${id}`);
  return { roles: sortedSet([...scopedSelectors(fields.roles, scope), ...byId]), missing };
}
