/** Fields as options of the command line. */

import { FIELDS } from "../kinds/generated/fields.ts";
import type { Field, Kind } from "../kinds/kind.ts";

/** What the fields are asked for. */
export type Purpose = "create" | "patch";

/** Fields of a kind that a creation or a change takes; the name of a new entity is an argument of its own. */
export function settableFields(kind: Kind, purpose: Purpose): readonly Field[] {
  return (FIELDS[kind.name] ?? []).filter(({ name, creation, isChangeable }) =>
    purpose === "create" ? creation !== undefined && name !== "name" : isChangeable === true,
  );
}

/** `roleAttributes` is `role-attributes`, `primary.extJwt.allowed` is `primary-ext-jwt-allowed`. */
export function optionName(field: Field): string {
  return field.name.replaceAll(".", "-").replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
