/** What entities of a network are called as resources, and how others refer to them. */
import type { FoundEntity } from "@sallyport/resources";
import { markOf, STANDARD_NAMESPACE } from "../marks.ts";

/** Names of resources are more restricted than those of entities. */
const MAX = 200;

/** A name that resources may have, like the entity's. */
export function nameLike(name: string): string {
  const like = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]+/g, "-")
    .replaceAll(/-*\.[-.]*/g, ".")
    .slice(0, MAX)
    .replaceAll(/^[^a-z0-9]+|[^a-z0-9]+$/g, "");
  return like === "" ? "unnamed" : like;
}

/** An entity as a resource, or several as one. */
export interface ExportedName {
  readonly name: string;
  readonly namespace: string;
  /** `spec.name`: the entity's, where that is another one. */
  readonly entityName: string | undefined;
}

/** Names of one kind, each given once. */
export class ExportedNames {
  readonly #given = new Set<string>();
  readonly #byId = new Map<string, ExportedName>();

  /** @param called the entity's name without what an EdgeRouter adds to it */
  add(entities: readonly FoundEntity[], called: string): ExportedName {
    const mark = markOf(entities[0]?.tags);
    const namespace = mark?.namespace ?? STANDARD_NAMESPACE;
    const wanted = mark?.name ?? nameLike(called);
    let name = wanted;
    for (let number = 2; this.#given.has(`${namespace}/${name}`); number++) name = `${wanted}-${number}`;
    this.#given.add(`${namespace}/${name}`);
    const exported = { name, namespace, entityName: called === name ? undefined : called };
    for (const { id } of entities) this.#byId.set(id, exported);
    return exported;
  }

  of(id: string): ExportedName | undefined {
    return this.#byId.get(id);
  }

  /** Ids of all entities that are exported as this resource. */
  idsOf(exported: ExportedName): readonly string[] {
    return [...this.#byId].flatMap(([id, each]) => (each === exported ? [id] : []));
  }
}
