import type { StructuralNode } from "../crd/crd.ts";
import { isObject } from "../json-object.ts";
import { fieldOf, itemOf, type Position, type Problem, schemaOf, TOP } from "./position.ts";
import { brokenRules } from "./rules.ts";

export type { ObjectPath, Problem } from "./position.ts";

/**
 * What an API server makes of an object of our kinds, in this process: strict about unknown fields, fills in defaults,
 * checks schema and rules, in its words. The real one has the last word (`e2e/cluster`).
 */
export interface Admission {
  /** The object as it would be stored. */
  readonly object: Record<string, unknown>;
  /** Why it is refused; none: it is not. */
  readonly problems: readonly Problem[];
}

type Json = Record<string, unknown>;

/**
 * @param schema of the whole object
 * @param previous the stored object that this is an update of
 */
export function admitObject(schema: StructuralNode, object: unknown, previous?: unknown): Admission {
  const stored = withDefaults(schema, structuredClone(object)) as Json;
  const problems: Problem[] = [];
  validate(schema, stored, TOP, problems);
  if (problems.length > 0) return { object: stored, problems };
  const before = previous === undefined ? undefined : withDefaults(schema, structuredClone(previous));
  brokenRules(schema, stored, before, TOP, problems);
  return { object: stored, problems };
}

/** Why the API server would refuse the CRD for a node's default: it puts it to the node's rules as it stands. */
export function problemsOfDefault(node: StructuralNode): readonly Problem[] {
  const problems: Problem[] = [];
  if (node.default !== undefined) validate(node, node.default, TOP, problems);
  if (node.default !== undefined && problems.length === 0) brokenRules(node, node.default, undefined, TOP, problems);
  return problems;
}

function withDefaults(node: StructuralNode, value: unknown): unknown {
  if (Array.isArray(value)) {
    const { items } = node;
    return items === undefined ? value : value.map((item) => withDefaults(items, item));
  }
  if (!isObject(value)) return value;
  for (const [name, child] of Object.entries(node.properties ?? {})) {
    // As good as none: none of our fields may be null.
    if (value[name] === null) delete value[name];
    if (value[name] === undefined && child.default !== undefined) value[name] = structuredClone(child.default);
    if (value[name] !== undefined) value[name] = withDefaults(child, value[name]);
  }
  return value;
}

type Refuse = (rule: string, message: string, expected: string, known?: readonly string[]) => void;

function validate(node: StructuralNode, value: unknown, position: Position, problems: Problem[]): void {
  const refuse: Refuse = (rule, message, expected, known) =>
    problems.push({ ...position, rule, message, expected, ...(known && { known }) });
  if (node["x-kubernetes-int-or-string"] === true) {
    if (!Number.isInteger(value) && typeof value !== "string")
      refuse("type", "must be of type integer or string", "a whole number or text");
    if (typeof value === "string") validateText(node, value, refuse);
    return;
  }
  const { type } = node;
  if (type !== undefined && !TYPES[type].has(value)) refuse("type", `must be of type ${type}`, TYPES[type].text);
  else if (typeof value === "string") validateText(node, value, refuse);
  else if (typeof value === "number") validateNumber(node, value, refuse);
  else if (Array.isArray(value)) validateList(node, value, position, problems, refuse);
  else if (isObject(value)) validateObject(node, value, position, problems, refuse);
}

interface JsonType {
  readonly text: string;
  has(value: unknown): boolean;
}

const TYPES: Readonly<Record<NonNullable<StructuralNode["type"]>, JsonType>> = {
  string: { text: "text", has: (value) => typeof value === "string" },
  boolean: { text: "true or false", has: (value) => typeof value === "boolean" },
  integer: { text: "a whole number", has: Number.isInteger },
  number: { text: "a number", has: (value) => typeof value === "number" },
  array: { text: "a list", has: Array.isArray },
  object: { text: "fields with values", has: isObject },
};

function validateNumber(node: StructuralNode, value: number, refuse: Refuse): void {
  if (node.minimum !== undefined && value < node.minimum)
    refuse("minimum", `should be greater than or equal to ${node.minimum}`, `at least ${node.minimum}`);
  if (node.maximum !== undefined && value > node.maximum)
    refuse("maximum", `should be less than or equal to ${node.maximum}`, `at most ${node.maximum}`);
}

function validateText(node: StructuralNode, value: string, refuse: Refuse): void {
  if (node.enum !== undefined && !node.enum.includes(value))
    refuse("enum", `Unsupported value: "${value}"`, `one of ${node.enum.join(", ")}`, node.enum);
  if (node.maxLength !== undefined && value.length > node.maxLength)
    refuse("maxLength", "Too long", `at most ${node.maxLength} characters`);
  if (node.minLength !== undefined && value.length < node.minLength)
    refuse("minLength", `should be at least ${node.minLength} chars long`, `at least ${node.minLength} characters`);
  if (node.pattern !== undefined && !new RegExp(node.pattern).test(value))
    refuse("pattern", `should match '${node.pattern}'`, `text of the form ${node.pattern}`);
}

function validateList(
  node: StructuralNode,
  value: readonly unknown[],
  position: Position,
  problems: Problem[],
  refuse: Refuse,
): void {
  if (node.maxItems !== undefined && value.length > node.maxItems)
    refuse("maxItems", `must have at most ${node.maxItems} items`, `at most ${node.maxItems} entries`);
  if (node.minItems !== undefined && value.length < node.minItems)
    refuse("minItems", `should have at least ${node.minItems} items`, `at least ${node.minItems} entries`);
  const keys = node["x-kubernetes-list-map-keys"];
  const idOf = (item: unknown) =>
    JSON.stringify(keys === undefined ? item : keys.map((key) => (isObject(item) ? item[key] : undefined)));
  if (node["x-kubernetes-list-type"] !== "atomic" && new Set(value.map(idOf)).size < value.length)
    refuse("x-kubernetes-list-type", "Duplicate value", `each ${keys?.join(" and ") ?? "entry"} once`);
  const { items } = node;
  if (items !== undefined)
    for (const [index, item] of value.entries()) validate(items, item, itemOf(position, index), problems);
}

function validateObject(
  node: StructuralNode,
  value: Json,
  position: Position,
  problems: Problem[],
  refuse: Refuse,
): void {
  if (node.maxProperties !== undefined && Object.keys(value).length > node.maxProperties)
    refuse("maxProperties", `must have at most ${node.maxProperties} items`, `at most ${node.maxProperties} fields`);
  for (const name of node.required ?? []) {
    if (value[name] !== undefined) continue;
    const missing = node.properties?.[name];
    const expected = missing?.enum === undefined ? missing?.type && TYPES[missing.type].text : missing.enum.join(", ");
    problems.push({
      ...fieldOf(position, name, true),
      rule: "required",
      message: "Required value",
      ...(expected && { expected }),
    });
  }
  for (const [name, child] of Object.entries(value)) {
    const { schema, isDeclared } = schemaOf(node, name);
    if (schema !== undefined) validate(schema, child, fieldOf(position, name, isDeclared), problems);
    else if (node["x-kubernetes-preserve-unknown-fields"] !== true && position.at !== "metadata") {
      const unknown = fieldOf(position, name, true);
      problems.push({
        ...unknown,
        rule: "unknown",
        message: `unknown field "${unknown.at}"`,
        known: Object.keys(node.properties ?? {}),
      });
    }
  }
}
