/** Places in objects, and what is wrong there. */
import type { StructuralNode } from "../crd/crd.ts";

/** Keys and indexes from the top of an object. */
export type ObjectPath = readonly (string | number)[];

export interface Problem {
  /** Path of the schema node, such as `spec.tags` or `spec.routers[].name`. */
  readonly at: string;
  /** The value at fault; of a field that is missing, where it would be. */
  readonly path: ObjectPath;
  /** `rule`, or the keyword of the schema. */
  readonly rule: string;
  readonly message: string;
  /** For people, what of a value of the schema would have been right: `one of Dial, Bind`. */
  readonly expected?: string;
  /** Of an unknown field or value, those that there are. */
  readonly known?: readonly string[];
}

/** The schema of a field, and whether it is declared by its name: `constructor` is no field of every object. */
export function schemaOf(
  node: StructuralNode,
  name: string,
): { readonly schema: StructuralNode | undefined; readonly isDeclared: boolean } {
  const isDeclared = node.properties !== undefined && Object.hasOwn(node.properties, name);
  return { schema: isDeclared ? node.properties?.[name] : node.additionalProperties, isDeclared };
}

/** Where a value stands: in the schema, and in the object. */
export interface Position {
  readonly at: string;
  readonly path: ObjectPath;
}

export const TOP: Position = { at: "", path: [] };

export const itemOf = ({ at, path }: Position, index: number): Position => ({
  at: `${at}[]`,
  path: [...path, index],
});

/** @param isDeclared the schema has a node of this name; else the values of a map share one */
export function fieldOf({ at, path }: Position, name: string, isDeclared: boolean): Position {
  return { at: isDeclared ? join(at, name) : `${at}.*`, path: [...path, name] };
}

const join = (at: string, name: string) => (at === "" ? name : `${at}.${name}`);
