import { Bitset } from "./bitset.ts";

/**
 * The rule: which entities a role selector means. Everything that evaluates it in memory does so by one of the functions of this file; `model/policy/selection-sql.ts`
 * is the same rule for the database. Source: docs/protocol/policy.md.
 */

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
 * entries selects nothing.
 */
export function matches(selector: RoleSelector, semantic: Semantic, entity: Attributed): boolean {
  if (selector.all || selector.ids.includes(entity.id)) return true;
  const { attrs } = selector;
  if (attrs.length === 0) return false;
  const has = (attr: string) => entity.attrs.includes(attr);
  return semantic === "AllOf" ? attrs.every(has) : attrs.some(has);
}

/** Entities of one kind, each with a slot: a small number. */
export interface SlottedEntities {
  readonly all: Bitset;
  /** Those that have the attribute; undefined when there is none. */
  having(attr: string): Bitset | undefined;
  slotOf(id: string): number | undefined;
}

/** The slots of all entities that the list selects: what {@link matches} says of each of them, put together from the sets of its attributes. */
export function selectedSlots(selector: RoleSelector, semantic: Semantic, entities: SlottedEntities): Bitset {
  if (selector.all) return entities.all.copy();
  const [first, ...others] = selector.attrs;
  const slots = (first === undefined ? undefined : entities.having(first)?.copy()) ?? new Bitset();
  for (const attr of others) {
    const having = entities.having(attr) ?? NONE;
    if (semantic === "AllOf") slots.keep(having);
    else slots.add(having);
  }
  for (const id of selector.ids) {
    const slot = entities.slotOf(id);
    if (slot !== undefined) slots.set(slot, true);
  }
  return slots;
}

const NONE = new Bitset();

/** Attributes of which every entity that the list selects by attributes has at least one: under AllOf one is enough, as each has them all. */
export function filingAttributes({ attrs }: RoleSelector, semantic: Semantic): readonly string[] {
  return semantic === "AllOf" ? attrs.slice(0, 1) : attrs;
}
