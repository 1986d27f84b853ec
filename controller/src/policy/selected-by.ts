import { type Attributed, filingAttributes, matches, type RoleSelector, type Semantic } from "./selector.ts";

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
  const entry = index.get(key) ?? new Map<string, P>();
  index.set(key, entry.set(policy.id, policy));
}

function unfile<P extends Selecting>(index: Map<string, Map<string, P>>, key: string, policy: P): void {
  const entry = index.get(key);
  entry?.delete(policy.id);
  if (entry?.size === 0) index.delete(key);
}
