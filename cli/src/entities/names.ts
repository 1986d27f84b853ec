/** Names of the entities that another entity refers to by id. */
import { mapLimit } from "@sallyport/async";
import { kindNamed } from "../kinds/find-kind.ts";
import { FIELDS } from "../kinds/generated/fields.ts";
import type { Kind } from "../kinds/kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { type Entity, isReference, valueAt } from "./entity.ts";
import { quoted } from "./filter-text.ts";
import { listEntities } from "./list.ts";

const AT_ONCE = 4;

/** Names by kind and id: `service/4xY…`. What is gone, or has no name, is not among them. */
export type Names = ReadonlyMap<string, string>;

export function nameKey(kind: string, id: string): string {
  return `${kind}/${id}`;
}

/** The names that the entity's own answer does not have. */
export async function namesOfIds(kind: Kind, entity: Entity, caller: ApiCaller): Promise<Names> {
  const wanted = new Map<string, Set<string>>();
  for (const { name, refersTo, isSelector } of FIELDS[kind.name] ?? []) {
    if (refersTo === undefined || !kindNamed(refersTo).hasName) continue;
    for (const id of idsIn(valueAt(entity, name), isSelector === true)) {
      wanted.set(refersTo, (wanted.get(refersTo) ?? new Set()).add(id));
    }
  }
  const found = await mapLimit([...wanted], AT_ONCE, async ([name, ids]) => {
    const filter = `id in [${[...ids].map(quoted).join(", ")}]`;
    const entities = await listEntities(kindNamed(name), { filter }, caller);
    return entities.map((each): [string, string] => [nameKey(name, String(each.id)), String(each.name)]);
  });
  return new Map(found.flat());
}

/** Ids in the value of a field that refers to entities. */
function idsIn(value: unknown, isSelector: boolean): string[] {
  if (typeof value === "string") return value === "" ? [] : [value];
  if (Array.isArray(value)) {
    const texts = value.filter((each) => typeof each === "string");
    return isSelector ? texts.flatMap((each) => (each.startsWith("@") ? [each.slice(1)] : [])) : texts;
  }
  return typeof value === "object" && value !== null && !isReference(value) ? Object.keys(value) : [];
}
