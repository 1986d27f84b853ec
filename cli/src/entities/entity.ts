/** Entities as the APIs answer them. */

export type Entity = Readonly<Record<string, unknown>>;

/** The value below a dotted path; undefined where there is none. */
export function valueAt(entity: unknown, path: string): unknown {
  let value = entity;
  for (const part of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Entity)[part];
  }
  return value;
}

/** What a user calls it: its name, and where it has none its id. */
export function titleOf(entity: Entity): string {
  const { name, id } = entity;
  return typeof name === "string" && name !== "" ? name : typeof id === "string" ? id : "";
}

/** A reference as answers have them: `id`, `name` and `_links`. */
export function isReference(value: unknown): value is { readonly id?: string; readonly name?: string } {
  return typeof value === "object" && value !== null && "_links" in value && ("entity" in value || "id" in value);
}

/** The same without `_links`, at every depth: they only matter to programs that follow them. */
export function withoutLinks(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutLinks);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, each]) => (key === "_links" ? [] : [[key, withoutLinks(each)] as const])),
  );
}
