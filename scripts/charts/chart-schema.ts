/** Whether values.schema.json and values.yaml of a chart know the same values. */
import type { ChartValue } from "./chart-values.ts";

export interface JsonSchema {
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
  readonly definitions?: Readonly<Record<string, JsonSchema>>;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: boolean | JsonSchema;
}

/** What a chart of charts hands down to all of them. */
const HANDED_DOWN = ["global"];

/** One line for each value that the schema does not have, and for each property of the schema without a default. */
export function schemaProblems(schema: JsonSchema, values: readonly ChartValue[]): string[] {
  const problems: string[] = [];
  for (const { path } of values) {
    if (at(schema, path.split(".")) === undefined)
      problems.push(`values.schema.json: ${path} of values.yaml is missing`);
  }
  const known = new Set(values.map(({ path }) => path));
  // The maps whose values stand one by one in values.yaml: what is below the others is theirs.
  const maps = new Set(values.flatMap(({ path }) => parentsOf(path)));
  for (const map of maps) {
    const node = at(schema, map === "" ? [] : map.split("."));
    if (node === undefined) continue;
    if (node.additionalProperties === undefined || node.additionalProperties === true)
      problems.push(`values.schema.json: ${map || "the root"} lets anything in: expected additionalProperties: false`);
    for (const name of Object.keys(node.properties ?? {})) {
      const path = map === "" ? name : `${map}.${name}`;
      if (!known.has(path) && !maps.has(path) && !HANDED_DOWN.includes(path))
        problems.push(`values.yaml: ${path} of values.schema.json has no default`);
    }
  }
  return problems;
}

/** `a.b.c`: the root, `a` and `a.b`. */
function parentsOf(path: string): string[] {
  const parts = path.split(".");
  return parts.map((_, depth) => parts.slice(0, depth).join("."));
}

function at(root: JsonSchema, path: readonly string[]): JsonSchema | undefined {
  let node: JsonSchema | undefined = root;
  for (const name of path) {
    const { properties, additionalProperties: more }: JsonSchema = resolved(root, node) ?? {};
    node = properties?.[name] ?? (typeof more === "object" ? more : undefined);
  }
  return resolved(root, node);
}

function resolved(root: JsonSchema, node: JsonSchema | undefined): JsonSchema | undefined {
  const [, where, name = ""] = /^#\/(\$defs|definitions)\/(.+)$/.exec(node?.$ref ?? "") ?? [];
  if (where === undefined) return node;
  const target = root[where === "$defs" ? "$defs" : "definitions"]?.[name];
  if (target === undefined) throw new Error(`values.schema.json has no ${where} ${name}`);
  return resolved(root, target);
}
