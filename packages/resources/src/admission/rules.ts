import { type CelInput, CelScalar, celEnv, celFunc, celMethod, isCelError, parse, plan } from "@bufbuild/cel";
import { amountOf } from "../amount.ts";
import type { StructuralNode } from "../crd/crd.ts";
import type { CelRule } from "../fields/cel.ts";
import { isObject } from "../json-object.ts";
import { fieldOf, itemOf, type Position, type Problem, schemaOf } from "./position.ts";

/** Adds the rules of the schema that the value breaks. Its form must fit the schema. */
export function brokenRules(
  node: StructuralNode,
  value: unknown,
  previous: unknown,
  position: Position,
  problems: Problem[],
): void {
  for (const rule of node["x-kubernetes-validations"] ?? []) {
    const message = failure(rule, node, value, previous);
    if (message === undefined) continue;
    // `.spec.name`: below the value.
    const below = rule.fieldPath?.split(".").slice(1) ?? [];
    problems.push({ at: position.at, path: [...position.path, ...below], rule: "rule", message });
  }
  if (Array.isArray(value) && node.items !== undefined) {
    const { items } = node;
    for (const [index, item] of value.entries()) brokenRules(items, item, undefined, itemOf(position, index), problems);
  }
  if (!isObject(value)) return;
  for (const [name, child] of Object.entries(value)) {
    const { schema, isDeclared } = schemaOf(node, name);
    const before = isObject(previous) && Object.hasOwn(previous, name) ? previous[name] : undefined;
    if (schema !== undefined) brokenRules(schema, child, before, fieldOf(position, name, isDeclared), problems);
  }
}

/** What the user reads; undefined when the rule holds. */
function failure({ rule, message }: CelRule, node: StructuralNode, value: unknown, previous: unknown) {
  const isTransition = /\boldSelf\b/.test(rule);
  if (isTransition && previous === undefined) return undefined;
  try {
    const result = evaluatorOf(rule)({
      self: celValue(node, value),
      ...(isTransition && { oldSelf: celValue(node, previous) }),
    });
    if (isCelError(result)) return `${rule}: ${result.message}`;
    return result === true ? undefined : message;
  } catch (error) {
    return `${rule}: ${(error as Error).message}`;
  }
}

type Evaluator = (values: Readonly<Record<string, CelInput>>) => unknown;

/** A thousand objects have the same rules. */
const evaluators = new Map<string, Evaluator>();

function evaluatorOf(rule: string): Evaluator {
  const known = evaluators.get(rule);
  if (known !== undefined) return known;
  const made = plan(celEnv({ funcs: FUNCTIONS }), parse(rule)) as Evaluator;
  evaluators.set(rule, made);
  return made;
}

/** Values as rules see them: integers and decimals are different types there, objects are maps. */
function celValue(node: StructuralNode | undefined, value: unknown): CelInput {
  // Of a free form nothing says which of the two a number is.
  if (typeof value === "number") return node?.type === "number" || !Number.isInteger(value) ? value : BigInt(value);
  if (Array.isArray(value)) {
    const items = value.map((item) => celValue(node?.items, item));
    // Sets are equal in any order.
    return node?.["x-kubernetes-list-type"] === "set" ? items.sort() : items;
  }
  if (isObject(value))
    return new Map(
      Object.entries(value).map(([name, child]) => [name, celValue(node && schemaOf(node, name).schema, child)]),
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
