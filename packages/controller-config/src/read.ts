import { readFile } from "node:fs/promises";
import { type Document, isMap, isNode, isSeq, LineCounter, type Node, type Pair, parseDocument } from "yaml";
import type { z } from "zod";
import { substituteEnvironment } from "./environment.ts";
import { ConfigError, type ConfigProblem } from "./problems.ts";
import { type ControllerConfig, controllerConfigSchema } from "./schema.ts";
import { findUnknownKeys } from "./unknown-keys.ts";

/** A usable configuration, and what its author should look at. */
export interface ConfigRead {
  readonly config: ControllerConfig;
  /** Unknown keys and unset variables. */
  readonly warnings: readonly ConfigProblem[];
  /** Where a value stands, for what turns out later: `placeOf("api.serverCertificates.0.cert")`. What is not there: the deepest key above it. */
  placeOf(path: string): Pick<ConfigProblem, "line" | "column">;
}

/** Values that are never shown. */
const SECRET_PATHS = new Set(["database.url"]);

/** Reads and checks a file. @throws ConfigError with every problem, also when the file cannot be read. */
export async function readControllerConfigFile(
  file: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<ConfigRead> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch (error) {
    const found = (error as NodeJS.ErrnoException).code ?? String(error);
    throw new ConfigError(file, [{ path: "", line: 1, column: 1, expected: "a file that can be read", found }]);
  }
  return readControllerConfig(text, file, env);
}

/**
 * Checks the text of `controller.yml`: environment variables are put in first, then everything is checked at once.
 * @throws ConfigError with every problem and its place
 */
export function readControllerConfig(
  text: string,
  file = "controller.yml",
  env: NodeJS.ProcessEnv = process.env,
): ConfigRead {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, version: "1.2", prettyErrors: false });
  const at = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  if (document.errors.length > 0) {
    throw new ConfigError(
      file,
      document.errors.map((error) => ({ path: "", ...at(error.pos[0]), expected: "valid YAML", found: error.message })),
    );
  }
  const unset = substituteEnvironment(document, env);
  const root = document.contents;
  if (!isMap(root)) {
    throw new ConfigError(file, [
      { path: "", line: 1, column: 1, expected: "keys and values", found: "something else" },
    ]);
  }
  const result = controllerConfigSchema.safeParse(plainValue(document, file), { reportInput: true });
  if (!result.success) {
    throw new ConfigError(
      file,
      result.error.issues.map((issue) => toProblem(issue, root, at)),
    );
  }
  const warnings: ConfigProblem[] = [
    ...findUnknownKeys(root, controllerConfigSchema).map(({ path, offset, nearest, known }) => ({
      path: path.join("."),
      ...at(offset),
      expected: nearest ? `a known key, perhaps ${nearest}` : `one of ${known.join(", ")}`,
      found: `the unknown key ${path.at(-1)}, which is ignored`,
    })),
    ...unset.map(({ name, offset }) => ({
      path: "",
      ...at(offset),
      expected: `the environment variable ${name}`,
      found: "none, so empty text is used",
    })),
  ];
  return { config: result.data, warnings, placeOf: (path) => at(placeOf(root, path.split("."))) };
}

function toProblem(
  issue: z.core.$ZodIssue,
  root: Node,
  at: (offset: number) => { line: number; column: number },
): ConfigProblem {
  const keys = issue.path.map(String);
  const path = keys.join(".");
  return { path, ...at(placeOf(root, keys)), expected: expectationOf(issue), found: foundAt(issue, path, root) };
}

/** The offset of the value at `keys`, or of the deepest key above it that exists. */
function placeOf(root: Node, keys: readonly string[]): number {
  let node: unknown = root;
  let offset = root.range?.[0] ?? 0;
  for (const key of keys) {
    if (isSeq(node)) {
      node = node.items[Number(key)];
      if (isNode(node)) offset = node.range?.[0] ?? offset;
      continue;
    }
    const pair: Pair | undefined = isMap(node)
      ? node.items.find((item) => String((item as Pair).key) === key)
      : undefined;
    if (!pair) break;
    const place = isNode(pair.value) && !isMap(pair.value) ? pair.value : pair.key;
    if (isNode(place)) offset = place.range?.[0] ?? offset;
    node = pair.value;
  }
  return offset;
}

function expectationOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "too_small":
      return `at least ${issue.minimum}${issue.origin === "string" ? " characters" : ""}`;
    case "too_big":
      return `at most ${issue.maximum}`;
    case "invalid_union":
      return issue.message.startsWith("Invalid input") ? "text or a number" : issue.message;
    case "unrecognized_keys":
      return `known keys only, which ${issue.keys.join(", ")} is not`;
    case "invalid_type":
      return issue.message.startsWith("Invalid input") ? kindName(issue.expected) : issue.message;
    default:
      return issue.message;
  }
}

function kindName(kind: string): string {
  return { object: "keys and values", string: "text", number: "a number", int: "a whole number" }[kind] ?? kind;
}

function foundAt(issue: z.core.$ZodIssue, path: string, root: Node): string {
  const { input } = issue;
  if (input === undefined) return "nothing";
  if (SECRET_PATHS.has(path)) return "another text (not shown, as it may hold a password)";
  if (Array.isArray(input)) return "a list";
  if (typeof input === "object") {
    const node = isMap(root) ? root.getIn(issue.path as string[]) : undefined;
    // An unknown kind of thing is reported with the whole thing as its input.
    if (node !== undefined && !isNode(node)) return JSON.stringify(node);
    const keys = isMap(node) ? node.items.map((pair) => String(pair.key)) : [];
    return keys.length > 0 ? `the keys ${keys.join(", ")}` : "no keys";
  }
  return JSON.stringify(input);
}

/** The values as they stand, without nulls. Aliases that repeat without end, or name nothing, are refused here. */
function plainValue(document: Document, file: string): unknown {
  try {
    return withoutNulls(document.toJS());
  } catch (error) {
    const found = (error as Error).message;
    throw new ConfigError(file, [
      { path: "", line: 1, column: 1, expected: "aliases (*name) that can be followed", found },
    ]);
  }
}

// A key without a value (`log:`) is the same as no key: its default holds.
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).filter(([, inner]) => inner !== null);
  return Object.fromEntries(entries.map(([key, inner]) => [key, withoutNulls(inner)]));
}
