/** What references between resources come to: ids of entities, some of which are still to be made. */
import type { Reference, Resolution, ResolvedReferences } from "@sallyport/resources";
import { type Declared, titleOf } from "./manifests.ts";
import type { NetworkState } from "./network-state.ts";

const keyOf = (kind: string, namespace: string, name: string): string => `${kind}/${namespace}/${name}`;

export class References {
  readonly #state: NetworkState;
  /** Of resources in the files; undefined as long as there is none. */
  readonly #ids = new Map<string, string[] | undefined>();

  constructor(state: NetworkState, declared: readonly Declared[]) {
    this.#state = state;
    for (const { resource } of declared) this.#ids.set(keyOfResource(resource), undefined);
  }

  /** An entity of the resource has this id. */
  add({ resource }: Pick<Declared, "resource">, id: string): void {
    const key = keyOfResource(resource);
    this.#ids.set(key, [...(this.#ids.get(key) ?? []), id]);
  }

  /** The resource stands for no entity at all. */
  addNone({ resource }: Pick<Declared, "resource">): void {
    this.#ids.set(keyOfResource(resource), []);
  }

  /** Whether the files declare what is referred to. */
  isDeclared(namespace: string, { kind, name }: Reference): boolean {
    return this.#ids.has(keyOf(kind, namespace, name));
  }

  resolve(namespace: string, references: readonly Reference[]): ResolvedReferences {
    return new Map(references.map((each) => [`${each.kind}/${each.name}`, this.#resolve(namespace, each)]));
  }

  /** In the files, else of files that were applied before, else the entity of this name. */
  #resolve(namespace: string, { kind, name }: Reference): Resolution {
    const key = keyOf(kind, namespace, name);
    if (this.#ids.has(key)) {
      const ids = this.#ids.get(key);
      return ids === undefined ? { problem: "NotReady" } : { ids };
    }
    const there = this.#state.of(kind);
    const applied = there.appliedAs(namespace, name);
    if (applied.length > 0) return { ids: applied.map(({ id }) => id) };
    const named = there.named(name);
    return named === undefined ? { problem: "NotFound" } : { ids: [named.id] };
  }
}

function keyOfResource({ kind, metadata }: Declared["resource"]): string {
  return keyOf(kind, metadata.namespace, metadata.name);
}

/** In place of the id of an entity that is still to be made. */
export const idToCome = (declared: Pick<Declared, "resource">): string => `new ${titleOf(declared)}`;
