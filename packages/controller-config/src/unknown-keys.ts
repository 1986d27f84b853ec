import { isMap, isScalar, isSeq, type Node } from "yaml";
import { z } from "zod";

/** A key that the schema does not have. */
export interface UnknownKey {
  readonly path: readonly string[];
  /** Offset of the key in the text. */
  readonly offset: number;
  /** The known name that it resembles most, if any does. */
  readonly nearest: string | undefined;
  readonly known: readonly string[];
}

/** Finds the keys of a YAML document that `schema` does not know, at any depth. */
export function findUnknownKeys(node: Node | null, schema: z.ZodType, path: readonly string[] = []): UnknownKey[] {
  const entry = entryOf(schema);
  if (entry && isSeq(node)) {
    return node.items.flatMap((item, i) => findUnknownKeys(item as Node | null, entry, [...path, String(i)]));
  }
  const shape = shapeOf(schema);
  if (!shape || !isMap(node)) return [];
  const known = Object.keys(shape);
  return node.items.flatMap((pair) => {
    if (!isScalar(pair.key)) return [];
    const key = String(pair.key.value);
    const inner = shape[key];
    if (inner) return findUnknownKeys(pair.value as Node | null, inner, [...path, key]);
    return [{ path: [...path, key], offset: pair.key.range?.[0] ?? 0, nearest: nearestName(key, known), known }];
  });
}

function entryOf(schema: z.ZodType): z.ZodType | undefined {
  if (schema instanceof z.ZodArray) return schema.element as z.ZodType;
  return schema instanceof z.ZodDefault ? entryOf(schema.unwrap() as z.ZodType) : undefined;
}

function shapeOf(schema: z.ZodType): Record<string, z.ZodType> | undefined {
  if (schema instanceof z.ZodObject) return schema.shape as Record<string, z.ZodType>;
  if (schema instanceof z.ZodPrefault || schema instanceof z.ZodDefault || schema instanceof z.ZodOptional) {
    return shapeOf(schema.unwrap() as z.ZodType);
  }
  return undefined;
}

/** The name that needs fewest edits, if those are at most a third of its letters (case does not count). */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const scored = known
    .map((candidate) => ({ candidate, edits: distance(name.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.edits - b.edits)[0];
  if (!scored || scored.edits > Math.max(1, Math.floor(scored.candidate.length / 3))) return undefined;
  return scored.candidate;
}

// Levenshtein's distance, row by row.
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
