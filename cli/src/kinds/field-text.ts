/** Types of fields in words. */
import type { Field, FieldType } from "./kind.ts";

const TYPES: Readonly<Record<FieldType, string>> = {
  text: "text",
  integer: "whole number",
  number: "number",
  boolean: "true or false",
  time: "time",
  map: "keys and values",
  object: "object",
  reference: "reference",
  any: "any value",
};

/** What values a field has, such as `one of Dial, Bind` or `list of service names, #attribute or #all`. */
export function typeText({ type, of, isList, values, minimum, maximum, refersTo, isSelector }: Field): string {
  if (isSelector === true) return `list of @${refersTo}, #attribute or #all`;
  if (isList === true && refersTo !== undefined) return `list of ${refersTo} names`;
  const single =
    values !== undefined ? `one of ${values.join(", ")}` : wordsOf({ type, of, minimum, maximum, refersTo });
  return isList === true ? `list of ${single.replace(/^one of /, "")}` : single;
}

function wordsOf(field: {
  readonly type: FieldType;
  readonly of: FieldType | undefined;
  readonly minimum: number | undefined;
  readonly maximum: number | undefined;
  readonly refersTo: string | undefined;
}): string {
  const { type, of, minimum, maximum, refersTo } = field;
  if (type === "map") return `${refersTo ?? "key"}=${of === undefined || of === "any" ? "value" : TYPES[of]}`;
  if (refersTo !== undefined) return `name of ${/^[aeiou]/.test(refersTo) ? "an" : "a"} ${refersTo}`;
  const bounds =
    minimum === undefined ? "" : maximum === undefined ? ` from ${minimum}` : ` from ${minimum} to ${maximum}`;
  return `${TYPES[type]}${bounds}`;
}
