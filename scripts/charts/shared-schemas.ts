import type { JsonSchema } from "./network-schema.ts";

/** Below this many characters a reference saves too little to be followed. */
const WORTH = 400;

/** The same schema with every large part that stands in it more than once written once, under `definitions`. */
export function shared(schema: JsonSchema): JsonSchema {
  const seen = new Map<string, { name: string; count: number }>();
  const count = (node: unknown, name: string): void => {
    if (typeof node !== "object" || node === null) return;
    const text = JSON.stringify(node);
    if (isSchema(node) && text.length >= WORTH) {
      const known = seen.get(text);
      if (known !== undefined) {
        known.count++;
        // What is in it was counted with the first of them.
        return;
      }
      seen.set(text, { name, count: 1 });
    }
    for (const [key, child] of Object.entries(node))
      count(child, /^(items|additionalProperties|\d+)$/.test(key) ? name : key);
  };
  count(schema, "values");
  const names = new Map<string, string>();
  const taken = new Set<string>();
  for (const [text, { name, count: times }] of seen) {
    if (times < 2) continue;
    let free = name;
    for (let i = 2; taken.has(free); i++) free = `${name}${i}`;
    taken.add(free);
    names.set(text, free);
  }
  const definitions: Record<string, unknown> = {};
  const replaced = (node: unknown): unknown => {
    if (typeof node !== "object" || node === null) return node;
    const name = names.get(JSON.stringify(node));
    if (name === undefined) return within(node);
    definitions[name] ??= within(node);
    return { $ref: `#/definitions/${name}` };
  };
  const within = (node: object): unknown =>
    Array.isArray(node)
      ? node.map(replaced)
      : Object.fromEntries(Object.entries(node).map(([key, child]) => [key, replaced(child)]));
  return { ...(within(schema) as JsonSchema), definitions };
}

const isSchema = (node: object): boolean => "type" in node && typeof node.type === "string";
