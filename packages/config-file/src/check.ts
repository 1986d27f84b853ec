import type { z } from "zod";
import type { ConfigDocument } from "./document.ts";
import { nearestName } from "./nearest-name.ts";
import { ConfigError, type ConfigProblem, formatPath, type Path, type Place } from "./problems.ts";

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
 * @throws ConfigError with every problem at once, in the order of the file. Unknown keys are among them: a misspelt key is often why another one is missing.
 */
export function checkConfig<Schema extends z.ZodType>(
  schema: Schema,
  root: unknown,
  { words, document, placeOf = document?.keyPlace, file }: CheckOptions,
): { config: z.output<Schema>; warnings: ConfigProblem[] } {
  const result = schema.safeParse(root);
  const unknown = findUnknownKeys(root, schema as unknown as SchemaNode).map(({ path, known }): ConfigProblem => {
    const key = String(path.at(-1));
    const nearest = nearestName(key, known);
    const expected = nearest === undefined ? `one of ${known.join(", ")}` : `a known key, perhaps ${nearest}`;
    const found = `the unknown key ${key}`;
    return { path: formatPath(path), ...document?.keyPlace(path), expected, found, isIgnored: true };
  });
  if (!result.success) {
    const problems = result.error.issues.map((issue): ConfigProblem => {
      const path = issue.path as Path;
      const found = words.found(valueAt(root, path), path);
      return { path: formatPath(path), ...placeOf?.(path), expected: words.expected(issue), found };
    });
    const refused = new Set(
      result.error.issues.flatMap((issue) =>
        issue.code === "unrecognized_keys" ? issue.keys.map((key) => formatPath([...(issue.path as Path), key])) : [],
      ),
    );
    problems.push(...unknown.filter(({ path }) => !refused.has(path)));
    problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0));
    throw new ConfigError(file, problems);
  }
  return { config: result.data, warnings: [...(document?.warnings ?? []), ...unknown] };
}

function valueAt(root: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, part) =>
      typeof value === "object" && value !== null ? (value as Record<string | number, unknown>)[part] : undefined,
    root,
  );
}

/** A zod schema from outside: the parts that are walked over to find unknown keys or to describe a file. */
export interface SchemaNode {
  readonly description?: string | undefined;
  readonly meta: () => Readonly<Record<string, unknown>> | undefined;
  readonly _zod: {
    readonly def: {
      readonly type: string;
      readonly shape?: Readonly<Record<string, SchemaNode>>;
      readonly innerType?: SchemaNode;
      readonly in?: SchemaNode;
      readonly element?: SchemaNode;
      readonly options?: readonly SchemaNode[];
      readonly discriminator?: string;
      readonly values?: readonly unknown[];
      readonly defaultValue?: unknown;
    };
  };
}

/** A key of a configuration that its schema does not have. */
interface UnknownKey {
  readonly path: Path;
  readonly known: readonly string[];
}

/** The keys of a configuration that the schema does not know, at any depth but within mappings with free keys. */
function findUnknownKeys(value: unknown, schema: SchemaNode, path: Path = []): UnknownKey[] {
  const node = valueSchema(schema, value);
  const { shape, element } = node._zod.def;
  if (element !== undefined && Array.isArray(value)) {
    return value.flatMap((item, i) => findUnknownKeys(item, element, [...path, i]));
  }
  if (shape === undefined || !isMap(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const schemaOfKey = shape[key];
    return schemaOfKey === undefined
      ? [{ path: [...path, key], known: Object.keys(shape) }]
      : findUnknownKeys(inner, schemaOfKey, [...path, key]);
  });
}

/** The schema without defaults and transforms; of several kinds of mapping the one that the value names. */
function valueSchema(node: SchemaNode, value: unknown): SchemaNode {
  const { innerType, in: input, options, discriminator } = node._zod.def;
  if (innerType !== undefined) return valueSchema(innerType, value);
  if (input !== undefined) return valueSchema(input, value);
  if (options === undefined || discriminator === undefined || !isMap(value)) return node;
  const kinds = options.map((option) => valueSchema(option, value));
  const isNamed = (kind: SchemaNode) =>
    kind._zod.def.shape?.[discriminator]?._zod.def.values?.includes(value[discriminator]);
  return kinds.find(isNamed) ?? node;
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value));
