import type { z } from "zod";
import type { ConfigDocument } from "./document.ts";
import { nearestName } from "./nearest-name.ts";
import { ConfigError, type ConfigProblem, formatPath, type Path, type Place } from "./problems.ts";
import { findUnknownKeys, type SchemaNode } from "./unknown-keys.ts";

/** How a file speaks of a problem. */
export interface ProblemWords {
  /** What the schema wants, for example `an integer from 1 to 10`. */
  expected(issue: z.core.$ZodIssue): string;
  /** What the file has, without secrets. */
  found(value: unknown, path: Path): string;
}

export interface CheckOptions {
  readonly words: ProblemWords;
  /** The file that the values come from, for the place of each problem. Absent for values that a program made. */
  readonly document?: ConfigDocument | undefined;
  /** Where the problem of a path stands; `keyPlace` of the document when absent. */
  readonly placeOf?: ((path: Path) => Place) | undefined;
  readonly file?: string | undefined;
}

/**
 * Checks values against the schema of a file. Unknown keys are ignored with a warning that names the nearest known key.
 *
 * @throws ConfigError with every problem at once, in the order of the file
 */
export function checkConfig<Schema extends z.ZodType>(
  schema: Schema,
  root: unknown,
  { words, document, placeOf = document?.keyPlace, file }: CheckOptions,
): { config: z.output<Schema>; warnings: ConfigProblem[] } {
  const result = schema.safeParse(root);
  if (!result.success) {
    const problems = result.error.issues.map((issue): ConfigProblem => {
      const path = issue.path as Path;
      const found = words.found(valueAt(root, path), path);
      return { path: formatPath(path), ...placeOf?.(path), expected: words.expected(issue), found };
    });
    problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0));
    throw new ConfigError(file, problems);
  }
  const unknown = findUnknownKeys(root, schema as unknown as SchemaNode).map(({ path, known }): ConfigProblem => {
    const key = String(path.at(-1));
    const nearest = nearestName(key, known);
    const expected = nearest === undefined ? `one of ${known.join(", ")}` : `a known key, perhaps ${nearest}`;
    const found = `the unknown key ${key}`;
    return { path: formatPath(path), ...document?.keyPlace(path), expected, found, isIgnored: true };
  });
  return { config: result.data, warnings: [...(document?.warnings ?? []), ...unknown] };
}

function valueAt(root: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, part) =>
      typeof value === "object" && value !== null ? (value as Record<string | number, unknown>)[part] : undefined,
    root,
  );
}
