/** Names of entities in what is sent, in place of which the API wants ids. */
import { kindNamed } from "../kinds/find-kind.ts";
import { FIELDS } from "../kinds/generated/fields.ts";
import type { Field, Kind } from "../kinds/kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { findEntities } from "./find.ts";

/**
 * The values with ids in place of names. Ids stay as they are, and of role selectors `#attribute` and `#all`.
 *
 * @param values by the names of fields
 * @throws CommandError `NotFound` for a name that no entity has
 */
export async function withIds(
  kind: Kind,
  values: ReadonlyMap<string, unknown>,
  caller: ApiCaller,
): Promise<Map<string, unknown>> {
  const changed = new Map(values);
  const fields = (FIELDS[kind.name] ?? []).filter(({ name, refersTo }) => refersTo !== undefined && values.has(name));
  for (const [refersTo, several] of Map.groupBy(fields, (field) => field.refersTo ?? "")) {
    const names = [...new Set(several.flatMap((field) => namesIn(field, values.get(field.name))))];
    if (names.length === 0) continue;
    const found = await findEntities(kindNamed(refersTo), names, caller);
    const ids = new Map(names.map((name, at) => [name, String(found[at]?.id)]));
    for (const field of several) changed.set(field.name, replaced(field, values.get(field.name), ids));
  }
  return changed;
}

function namesIn(field: Field, value: unknown): string[] {
  if (typeof value === "string") return value === "" ? [] : [value];
  if (Array.isArray(value)) {
    const texts = value.filter((each) => typeof each === "string");
    return field.isSelector === true ? texts.flatMap((each) => (each.startsWith("@") ? [each.slice(1)] : [])) : texts;
  }
  return typeof value === "object" && value !== null ? Object.keys(value) : [];
}

function replaced(field: Field, value: unknown, ids: ReadonlyMap<string, string>): unknown {
  const idOf = (name: string): string => ids.get(name) ?? name;
  if (typeof value === "string") return idOf(value);
  if (Array.isArray(value)) {
    return value.map((each: unknown) => {
      if (typeof each !== "string") return each;
      if (field.isSelector !== true) return idOf(each);
      return each.startsWith("@") ? `@${idOf(each.slice(1))}` : each;
    });
  }
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [idOf(name), each]));
}
