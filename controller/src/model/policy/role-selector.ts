/**
 * Role attributes of entities and role selectors of policies (docs/protocol/policy.md). A selector list holds `#attribute` and `@id` entries, or `#all` alone.
 * It is stored as a flag, the attributes and the ids.
 */
import { fieldError } from "@sallyport/api";
import type { RoleSelector } from "../../policy/selector.ts";
import { isIndexable, MAX_INDEXED_CHARACTERS } from "../entity.ts";

export const NOTHING: RoleSelector = { all: false, attrs: [], ids: [] };

/** Checks and orders the role attributes of an entity. @throws ApiError 400 on `field` when one begins with `#` or `@` */
export function roleAttributes(values: readonly string[] | null | undefined, field = "roleAttributes"): string[] {
  const attributes = values ?? [];
  for (const attribute of attributes) {
    const prefix = attribute.charAt(0);
    if (prefix === "#" || prefix === "@") {
      throw fieldError(field, `role attributes may not be prefixed with ${prefix}`, attribute);
    }
    if (!isIndexable(attribute)) {
      throw fieldError(field, `a role attribute may have at most ${MAX_INDEXED_CHARACTERS} characters`, attribute);
    }
  }
  return sortedSet(attributes);
}

/**
 * Takes a selector list apart. What follows an `@` may still be an id or a name: see {@link resolveSelector}.
 * @throws ApiError 400 on `field` for an entry without prefix, or for `#all` beside others
 */
export function parseRoles(field: string, roles: readonly string[] | null | undefined): RoleSelector {
  const list = roles ?? [];
  if (list.includes("#all")) {
    if (list.length > 1) throw fieldError(field, "if using #all, it should be the only role specified", list);
    return { all: true, attrs: [], ids: [] };
  }
  const attrs: string[] = [];
  const ids: string[] = [];
  for (const role of list) {
    if (role.startsWith("#")) attrs.push(role.slice(1));
    else if (role.startsWith("@")) ids.push(role.slice(1));
    else {
      throw fieldError(
        field,
        "role entries must prefixed with # (to indicate role attributes) or @ (to indicate a name or id)",
        role,
      );
    }
  }
  return { all: false, attrs: sortedSet(attrs), ids: sortedSet(ids) };
}

/** An entity as far as selectors name it. */
export interface NamedEntity {
  readonly id: string;
  readonly name: string;
}

/**
 * Replaces names behind `@` by ids; an id wins over another entity's equal name. `found` holds every entity whose id or name is among `selector.ids`.
 * @throws ApiError 400 on `field` when one is neither an id nor a name
 */
export function resolveSelector(
  field: string,
  entityType: string,
  selector: RoleSelector,
  found: readonly NamedEntity[],
): RoleSelector {
  const ids = new Set(found.map((entity) => entity.id));
  const idOfName = new Map(found.map((entity) => [entity.name, entity.id]));
  const missing: string[] = [];
  const resolved = selector.ids.map((text) => {
    const id = ids.has(text) ? text : idOfName.get(text);
    if (id === undefined) missing.push(text);
    return id ?? text;
  });
  if (missing.length > 0) {
    throw fieldError(field, `no ${entityType} found with the given ids`, missing.map((id) => `@${id}`).join(", "));
  }
  return { ...selector, ids: sortedSet(resolved) };
}

/** The list as the API shows it: sorted, so `#` entries come before `@` ones. */
export function formatRoles(selector: RoleSelector): string[] {
  if (selector.all) return ["#all"];
  return [...selector.attrs.map((attr) => `#${attr}`), ...selector.ids.map((id) => `@${id}`)];
}

/** The list with names for ids; an id without a known name is shown as it is. */
export function displayRoles(
  selector: RoleSelector,
  names: ReadonlyMap<string, string>,
): { role: string; name: string }[] {
  return formatRoles(selector).map((role) => {
    const name = role.startsWith("@") ? names.get(role.slice(1)) : undefined;
    return { role, name: name === undefined ? role : `@${name}` };
  });
}

function sortedSet(values: readonly string[]): string[] {
  return [...new Set(values)].sort(bytewise);
}

/** Order of UTF-8 bytes, which is the order of the store (COLLATE "C"). */
function bytewise(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
