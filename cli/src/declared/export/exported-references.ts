/** Ids in entities as references of resources, and as ids where no resource stands for what they name. */
import type { NetworkState } from "../network-state.ts";
import { type ExportedName, ExportedNames } from "./exported-names.ts";

interface Ref {
  readonly name: string;
}

/** What selects entities of one kind in a policy. */
export interface Selected {
  readonly roles: readonly string[];
  readonly refs: readonly Ref[];
  readonly routerRefs: readonly Ref[];
  readonly ids: readonly string[];
}

export class ExportedReferences {
  readonly #state: NetworkState;
  readonly #names = new Map<string, ExportedNames>();
  /** Kinds whose resources come with what refers to them. */
  readonly #exported: ReadonlySet<string>;

  constructor(state: NetworkState, exported: Iterable<string>) {
    this.#state = state;
    this.#exported = new Set(exported);
  }

  namesOf(kind: string): ExportedNames {
    const found = this.#names.get(kind) ?? new ExportedNames();
    this.#names.set(kind, found);
    return found;
  }

  /** Undefined where only the id says which entity it is. @param namespace of what refers to it */
  refTo(kind: string, id: string, namespace: string): Ref | undefined {
    const exported = this.namesOf(kind).of(id);
    if (exported === undefined || exported.namespace !== namespace) return undefined;
    // What does not come along is found in the network by the name of its entity, or by its mark.
    const there = this.#state.of(kind);
    const isFound = there.named(exported.name)?.id === id || there.appliedAs(namespace, exported.name).length > 0;
    return this.#exported.has(kind) || isFound ? { name: exported.name } : undefined;
  }

  /** @param kind that the selectors are about; `Identity` also selects the tunnelers of routers */
  select(kind: string, selectors: readonly string[] | null | undefined, namespace: string): Selected {
    const given = selectors ?? [];
    const roles = given.filter((each) => each.startsWith("#")).toSorted();
    const wanted = new Set(given.filter((each) => each.startsWith("@")).map((each) => each.slice(1)));
    const refs: Ref[] = [];
    const routerRefs: Ref[] = [];
    const ids: string[] = [];
    for (const id of wanted) {
      const isRouter = kind === "EdgeRouter" || this.namesOf("EdgeRouter").of(id) !== undefined;
      const ref = isRouter ? this.#routersRef(id, wanted, namespace) : this.refTo(kind, id, namespace);
      if (ref === undefined) ids.push(id);
      else if (isRouter && kind !== "EdgeRouter") routerRefs.push(ref);
      else refs.push(ref);
    }
    return { roles, refs: unique(refs), routerRefs: unique(routerRefs), ids: ids.toSorted() };
  }

  /** An EdgeRouter stands for all of its routers: a policy that selects some of them names these by id. */
  #routersRef(id: string, wanted: ReadonlySet<string>, namespace: string): Ref | undefined {
    const names = this.namesOf("EdgeRouter");
    const exported: ExportedName | undefined = names.of(id);
    if (exported === undefined || !names.idsOf(exported).every((each) => wanted.has(each))) return undefined;
    return this.refTo("EdgeRouter", id, namespace);
  }
}

function unique(refs: readonly Ref[]): Ref[] {
  const names = [...new Set(refs.map(({ name }) => name))].sort();
  return names.map((name) => ({ name }));
}
