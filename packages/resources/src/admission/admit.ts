import { type CelInput, CelScalar, celFunc, celMethod, isCelError, run } from "@bufbuild/cel";
import { amountOf } from "../amount.ts";
import { objectSchema, type StructuralNode } from "../crd/crd.ts";
import type { KindDefinition } from "../kind-definition.ts";

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

export interface Problem {
  /** Path of the schema node, such as `spec.tags` or `spec.routers[].name`. */
  readonly at: string;
  /** `rule`, or the keyword of the schema. */
  readonly rule: string;
  readonly message: string;
}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const schemas = new Map<KindDefinition, StructuralNode>();

/** @param previous the stored object that this is an update of */
export function admit(kind: KindDefinition, object: unknown, previous?: unknown): Admission {
  const schema = schemas.get(kind) ?? objectSchema(kind);
  schemas.set(kind, schema);
  const stored = withDefaults(schema, structuredClone(object)) as Json;
  const problems: Problem[] = [];
  validate(schema, stored, "", problems);
  if (problems.length > 0) return { object: stored, problems };
  const before = previous === undefined ? undefined : withDefaults(schema, structuredClone(previous));
  evaluate(schema, stored, before, "", problems);
  return { object: stored, problems };
}

/** Why the API server would refuse the CRD for a node's default: it puts it to the node's rules as it stands. */
export function problemsOfDefault(node: StructuralNode): readonly Problem[] {
  const problems: Problem[] = [];
  if (node.default !== undefined) validate(node, node.default, "", problems);
  if (node.default !== undefined && problems.length === 0) evaluate(node, node.default, undefined, "", problems);
  return problems;
}

function withDefaults(node: StructuralNode, value: unknown): unknown {
  if (Array.isArray(value)) {
    const { items } = node;
    return items === undefined ? value : value.map((item) => withDefaults(items, item));
  }
  if (!isObject(value)) return value;
  for (const [name, child] of Object.entries(node.properties ?? {})) {
    if (value[name] === undefined && child.default !== undefined) value[name] = structuredClone(child.default);
    if (value[name] !== undefined) value[name] = withDefaults(child, value[name]);
  }
  return value;
}

function validate(node: StructuralNode, value: unknown, at: string, problems: Problem[]): void {
  const refuse = (rule: string, message: string) => problems.push({ at, rule, message });
  if (node["x-kubernetes-int-or-string"] === true) {
    if (!Number.isInteger(value) && typeof value !== "string") refuse("type", "must be of type integer or string");
    if (typeof value === "string") validateText(node, value, refuse);
    return;
  }
  const isOfType = node.type === undefined || TYPES[node.type](value);
  if (!isOfType) refuse("type", `must be of type ${node.type}`);
  else if (typeof value === "string") validateText(node, value, refuse);
  else if (typeof value === "number") validateNumber(node, value, refuse);
  else if (Array.isArray(value)) validateList(node, value, at, problems);
  else if (isObject(value)) validateObject(node, value, at, problems);
}

const TYPES: Readonly<Record<NonNullable<StructuralNode["type"]>, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  integer: Number.isInteger,
  number: (value) => typeof value === "number",
  array: Array.isArray,
  object: isObject,
};

type Refuse = (rule: string, message: string) => void;

function validateNumber(node: StructuralNode, value: number, refuse: Refuse): void {
  if (node.minimum !== undefined && value < node.minimum)
    refuse("minimum", `should be greater than or equal to ${node.minimum}`);
  if (node.maximum !== undefined && value > node.maximum)
    refuse("maximum", `should be less than or equal to ${node.maximum}`);
}

function validateText(node: StructuralNode, value: string, refuse: Refuse): void {
  if (node.enum !== undefined && !node.enum.includes(value)) refuse("enum", `Unsupported value: "${value}"`);
  if (node.maxLength !== undefined && value.length > node.maxLength) refuse("maxLength", "Too long");
  if (node.minLength !== undefined && value.length < node.minLength)
    refuse("minLength", `should be at least ${node.minLength} chars long`);
  if (node.pattern !== undefined && !new RegExp(node.pattern).test(value))
    refuse("pattern", `should match '${node.pattern}'`);
}

function validateList(node: StructuralNode, value: readonly unknown[], at: string, problems: Problem[]): void {
  const refuse = (rule: string, message: string) => problems.push({ at, rule, message });
  if (node.maxItems !== undefined && value.length > node.maxItems)
    refuse("maxItems", `must have at most ${node.maxItems} items`);
  if (node.minItems !== undefined && value.length < node.minItems)
    refuse("minItems", `should have at least ${node.minItems} items`);
  const keys = node["x-kubernetes-list-map-keys"];
  const idOf = (item: unknown) =>
    JSON.stringify(keys === undefined ? item : keys.map((key) => (isObject(item) ? item[key] : undefined)));
  if (node["x-kubernetes-list-type"] !== "atomic" && new Set(value.map(idOf)).size < value.length)
    refuse("x-kubernetes-list-type", "Duplicate value");
  const { items } = node;
  if (items !== undefined) for (const item of value) validate(items, item, `${at}[]`, problems);
}

function validateObject(node: StructuralNode, value: Json, at: string, problems: Problem[]): void {
  const refuse = (rule: string, message: string) => problems.push({ at, rule, message });
  if (node.maxProperties !== undefined && Object.keys(value).length > node.maxProperties)
    refuse("maxProperties", `must have at most ${node.maxProperties} items`);
  for (const name of node.required ?? [])
    if (value[name] === undefined) problems.push({ at: join(at, name), rule: "required", message: "Required value" });
  for (const [name, child] of Object.entries(value)) {
    const known = node.properties?.[name] ?? node.additionalProperties;
    if (known !== undefined)
      validate(known, child, node.properties?.[name] === undefined ? `${at}.*` : join(at, name), problems);
    else if (node["x-kubernetes-preserve-unknown-fields"] !== true && at !== "metadata")
      problems.push({ at: join(at, name), rule: "unknown", message: `unknown field "${join(at, name)}"` });
  }
}

const join = (at: string, name: string) => (at === "" ? name : `${at}.${name}`);

function evaluate(node: StructuralNode, value: unknown, previous: unknown, at: string, problems: Problem[]): void {
  for (const { rule, message } of node["x-kubernetes-validations"] ?? []) {
    const isTransition = /\boldSelf\b/.test(rule);
    if (isTransition && previous === undefined) continue;
    const bindings = { self: celValue(node, value), ...(isTransition ? { oldSelf: celValue(node, previous) } : {}) };
    const result = run(rule, bindings, { funcs: FUNCTIONS });
    if (isCelError(result)) problems.push({ at, rule: "rule", message: `${rule}: ${result.message}` });
    else if (result !== true) problems.push({ at, rule: "rule", message });
  }
  if (Array.isArray(value) && node.items !== undefined)
    for (const item of value) evaluate(node.items, item, undefined, `${at}[]`, problems);
  if (!isObject(value)) return;
  for (const [name, child] of Object.entries(value)) {
    const known = node.properties?.[name] ?? node.additionalProperties;
    const before = isObject(previous) ? previous[name] : undefined;
    if (known !== undefined)
      evaluate(known, child, before, node.properties?.[name] === undefined ? `${at}.*` : join(at, name), problems);
  }
}

/** Values as rules see them: integers and decimals are different types there, objects are maps. */
function celValue(node: StructuralNode | undefined, value: unknown): CelInput {
  if (typeof value === "number") return node?.type === "number" ? value : BigInt(value);
  if (Array.isArray(value)) {
    const items = value.map((item) => celValue(node?.items, item));
    // Sets are equal in any order.
    return node?.["x-kubernetes-list-type"] === "set" ? items.sort() : items;
  }
  if (isObject(value))
    return new Map(
      Object.entries(value).map(([name, child]) => [
        name,
        celValue(node?.properties?.[name] ?? node?.additionalProperties, child),
      ]),
    );
  return value as CelInput;
}

/** Functions that Kubernetes adds to CEL, as far as our rules call them; a quantity is a plain number here. */
const FUNCTIONS = [
  celFunc("quantity", [CelScalar.STRING], CelScalar.DOUBLE, (given) => amountOf(given) ?? Number.NaN),
  celMethod("compareTo", CelScalar.DOUBLE, [CelScalar.DOUBLE], CelScalar.INT, function (other) {
    return BigInt(Math.sign(this - other));
  }),
];
