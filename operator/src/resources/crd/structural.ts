import { z } from "zod";
import type { CelRule } from "../fields/cel.ts";

/** A node of a structural schema: the part of OpenAPI v3 that a CRD may use, and that our kinds do. */
export interface StructuralNode {
  readonly description?: string;
  readonly type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly anyOf?: readonly { readonly type: string }[];
  readonly "x-kubernetes-int-or-string"?: true;
  readonly "x-kubernetes-preserve-unknown-fields"?: true;
  readonly "x-kubernetes-list-type"?: "set" | "map" | "atomic";
  readonly "x-kubernetes-list-map-keys"?: readonly string[];
  readonly "x-kubernetes-validations"?: readonly CelRule[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, StructuralNode>>;
  readonly items?: StructuralNode;
  readonly additionalProperties?: StructuralNode;
}

/** Keys that are taken over as they stand, in the order in which they are written. */
const PLAIN = [
  "description",
  "type",
  "format",
  "enum",
  "default",
  "minLength",
  "maxLength",
  "pattern",
  "minimum",
  "maximum",
  "minItems",
  "maxItems",
  "maxProperties",
  "x-kubernetes-int-or-string",
  "x-kubernetes-preserve-unknown-fields",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-validations",
  "required",
] as const;
/** Keys that are changed or dropped on the way. */
const HANDLED = new Set(["properties", "items", "additionalProperties", "anyOf"]);

type Json = Readonly<Record<string, unknown>>;

/** A schema that can't be said in a CRD. */
class StructuralError extends Error {
  override readonly name = "StructuralError";
}

/**
 * The structural schema of what users write (defaults are optional there).
 *
 * @throws StructuralError when a construct of the zod schema has no place in a structural schema.
 */
export function structuralSchema(schema: z.ZodType): StructuralNode {
  const json: unknown = z.toJSONSchema(schema, { target: "openapi-3.0", io: "input", reused: "inline" });
  return node(json as Json, "");
}

function node(json: Json, path: string): StructuralNode {
  const unknownKeys = Object.keys(json).filter((key) => !HANDLED.has(key) && !PLAIN.includes(key as never));
  if (unknownKeys.length > 0)
    throw new StructuralError(`${path}: a structural schema has no ${unknownKeys.join(", ")}; choose another type`);
  if (json["x-kubernetes-int-or-string"] === true) return intOrString(json);
  if (json.anyOf !== undefined)
    throw new StructuralError(`${path}: a structural schema has no unions; give each variant a field of its own`);
  return {
    ...plain(json),
    ...(json.properties === undefined ? {} : { properties: children(json.properties as Json, path) }),
    ...(json.items === undefined ? {} : { items: node(json.items as Json, `${path}[]`) }),
    ...values(json, path),
  };
}

function plain(json: Json): StructuralNode {
  const entries = PLAIN.filter((key) => json[key] !== undefined).map((key) => [
    key,
    key === "pattern" ? String(json[key]).replaceAll("\\/", "/") : json[key],
  ]);
  return Object.fromEntries(entries) as StructuralNode;
}

function children(properties: Json, path: string): Record<string, StructuralNode> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, child]) => [
      name,
      node(child as Json, path === "" ? name : `${path}.${name}`),
    ]),
  );
}

/** `additionalProperties` only where a map has values of one kind: structs are closed by pruning, free nodes are open. */
function values(json: Json, path: string): Partial<StructuralNode> {
  const given = json.additionalProperties;
  if (typeof given !== "object" || given === null || json["x-kubernetes-preserve-unknown-fields"] === true) return {};
  return { additionalProperties: node(given as Json, `${path}.*`) };
}

/** The one union that there is. Its members may carry nothing but their types. */
function intOrString(json: Json): StructuralNode {
  const members = (json.anyOf ?? []) as readonly Json[];
  const pattern = members.find((member) => member.type === "string")?.pattern;
  return { ...plain({ ...json, pattern }), anyOf: [{ type: "integer" }, { type: "string" }] };
}
