/** When two values mean the same to a network: servers sort, fill in and rewrite what they are given. */

type Texts = readonly string[] | null | undefined;

/** Same members, in any order; none is as good as an absent list. `normalize` maps every member to one form of it. */
export function sameSet(wanted: Texts, found: Texts, normalize: (value: string) => string = (value) => value): boolean {
  const left = new Set((wanted ?? []).map(normalize));
  const right = new Set((found ?? []).map(normalize));
  return left.size === right.size && left.isSubsetOf(right);
}

/** Same JSON; the order of keys does not count, a key without a value is as good as none. */
export function sameJson(wanted: unknown, found: unknown): boolean {
  if (wanted === found) return true;
  if (Array.isArray(wanted) && Array.isArray(found)) {
    return wanted.length === found.length && wanted.every((each, index) => sameJson(each, found[index]));
  }
  if (!isObject(wanted) || !isObject(found)) return false;
  const keys = new Set([...Object.keys(wanted), ...Object.keys(found)]);
  return [...keys].every((key) => sameJson(wanted[key], found[key]));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Hex digits without what people put between them. */
export const bareHex = (text: string): string => text.replaceAll(/[^0-9A-Fa-f]/g, "").toLowerCase();

export const lowerCase = (text: string): string => text.toLowerCase();
