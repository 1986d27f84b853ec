import { Bitset } from "@sallyport/async";

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

/** A policy as this index needs it. */
export interface Selecting {
  readonly id: string;
  readonly semantic: Semantic;
}

/**
 * Answers which policies select an entity without looking at all of them: by its id, by each of its attributes, and those for `#all`. An AllOf list is filed under
 * one attribute only, as every entity that it selects has that one.
 */
export class SelectedBy<P extends Selecting> {
  readonly #selectorOf: (policy: P) => RoleSelector;
  readonly #byAttribute = new Map<string, Map<string, P>>();
  readonly #byId = new Map<string, Map<string, P>>();
  readonly #forAll = new Map<string, P>();

  constructor(selectorOf: (policy: P) => RoleSelector) {
    this.#selectorOf = selectorOf;
  }

  add(policy: P): void {
    const selector = this.#selectorOf(policy);
    if (selector.all) this.#forAll.set(policy.id, policy);
    for (const attr of filingAttributes(selector, policy.semantic)) file(this.#byAttribute, attr, policy);
    for (const id of selector.ids) file(this.#byId, id, policy);
  }

  remove(policy: P): void {
    const selector = this.#selectorOf(policy);
    this.#forAll.delete(policy.id);
    for (const attr of filingAttributes(selector, policy.semantic)) unfile(this.#byAttribute, attr, policy);
    for (const id of selector.ids) unfile(this.#byId, id, policy);
  }

  /** The policies that select the entity, each once, in no order. */
  of(entity: Attributed): P[] {
    const found = new Map<string, P>(this.#forAll);
    for (const [id, policy] of this.#byId.get(entity.id) ?? []) found.set(id, policy);
    for (const attr of entity.attrs) {
      for (const [id, policy] of this.#byAttribute.get(attr) ?? []) {
        if (!found.has(id) && matches(this.#selectorOf(policy), policy.semantic, entity)) found.set(id, policy);
      }
    }
    return [...found.values()];
  }
}

function file<P extends Selecting>(index: Map<string, Map<string, P>>, key: string, policy: P): void {
  index.getOrInsertComputed(key, () => new Map()).set(policy.id, policy);
}

function unfile<P extends Selecting>(index: Map<string, Map<string, P>>, key: string, policy: P): void {
  const entry = index.get(key);
  entry?.delete(policy.id);
  if (entry?.size === 0) index.delete(key);
}
