import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import type { z } from "zod";
import { type ConfigDocument, formatPath, type Path, readDocument } from "./document.ts";
import type { Environment } from "./environment.ts";
import { type ConfigProblem, type Place, RouterConfigError } from "./errors.ts";
import { PlainScalar } from "./plain-scalar.ts";
import { type RouterConfig, routerConfigSchema } from "./schema.ts";
import { UNKNOWN_KEY } from "./section.ts";
import { type IdleKey, idleKeys } from "./without-effect.ts";

/** A configuration and what is odd about its file without making it unusable. */
export interface LoadedRouterConfig {
  readonly config: RouterConfig;
  readonly warnings: readonly ConfigProblem[];
  /** Keys that are known and change nothing, with the reason of each. */
  readonly idle: readonly IdleKey[];
  /** Where a key stands, or the nearest one above it that is there; undefined when the configuration came from no file. */
  placeOf(path: Path): Place | undefined;
}

export interface ReadOptions {
  /** Named in errors. */
  readonly file?: string;
  /** For `$VAR` and `${VAR}`; the process' environment when absent. */
  readonly env?: Environment;
}

/**
 * Checks the text of a configuration file.
 *
 * @throws RouterConfigError with every error at once, each with path, line and column
 */
export function parseRouterConfig(source: string, options: ReadOptions = {}): LoadedRouterConfig {
  const env = { TMP: tmpdir(), TEMP: tmpdir(), TMPDIR: tmpdir(), ...(options.env ?? process.env) };
  const document = readDocument(source, env, options.file);
  return validate(document.root, document, options.file);
}

/**
 * Reads and checks a configuration file.
 *
 * @throws RouterConfigError, also when the file cannot be read
 */
export async function loadRouterConfig(
  file: string,
  options: Omit<ReadOptions, "file"> = {},
): Promise<LoadedRouterConfig> {
  let source: string;
  try {
    source = await readFile(file, "utf8");
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    throw new RouterConfigError([{ path: "", expected: "a readable file", found }], file);
  }
  return parseRouterConfig(source, { ...options, file });
}

/** Checks a configuration that a program made; problems then have no line. Throws RouterConfigError. */
export function validateRouterConfig(value: unknown): LoadedRouterConfig {
  return validate(value);
}

function validate(root: unknown, document?: ConfigDocument, file?: string): LoadedRouterConfig {
  const placeOf = (path: Path): Place | undefined => document?.position(path);
  const idle = idleKeys(root);
  const first = routerConfigSchema.safeParse(root);
  if (first.success) return { config: first.data, warnings: document?.warnings ?? [], idle, placeOf };
  const unknown: { path: Path; suggestion: string }[] = [];
  const problems: ConfigProblem[] = [];
  for (const issue of flatten(first.error.issues)) {
    if (issue.code === UNKNOWN_KEY) {
      const suggestions = JSON.parse(issue.message) as string[];
      issue.keys.forEach((key, i) => {
        unknown.push({ path: [...(issue.path as Path), key], suggestion: suggestions[i] ?? "" });
      });
    } else {
      problems.push(describe(issue, root, document));
    }
  }
  const warnings = unknown.map(({ path, suggestion }) => ({
    path: formatPath(path),
    ...document?.position(path),
    expected: suggestion === "" ? "a known key" : `a known key, perhaps ${suggestion}`,
    found: "an unknown one, which is ignored",
  }));
  if (unknown.length > 0) {
    // The rest of a mapping with unknown keys is only checked once they are gone.
    const again = routerConfigSchema.safeParse(
      without(
        root,
        unknown.map((u) => u.path),
      ),
    );
    if (again.success)
      return { config: again.data, warnings: [...(document?.warnings ?? []), ...warnings], idle, placeOf };
    problems.length = 0;
    for (const issue of flatten(again.error.issues)) problems.push(describe(issue, root, document));
  }
  problems.sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0));
  throw new RouterConfigError(problems, file);
}

function flatten(issues: readonly z.core.$ZodIssue[]): z.core.$ZodIssue[] {
  return issues.flatMap((issue) => {
    const nested = issue.code === "invalid_union" ? (issue.errors[0] ?? []) : [];
    if (nested.length === 0) return [issue];
    return nested.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }));
  });
}

function describe(issue: z.core.$ZodIssue, root: unknown, document?: ConfigDocument): ConfigProblem {
  const path = issue.path as Path;
  return {
    path: formatPath(path),
    ...document?.position(path),
    expected: expectation(issue),
    found: show(valueAt(root, path), path),
  };
}

function expectation(issue: z.core.$ZodIssue): string {
  if (issue.code === "custom" && typeof issue.params?.expected === "string") return issue.params.expected;
  if (issue.code === "invalid_union") return "a binding: edge, tunnel, transport, transport_udp, proxy or proxy_udp";
  return issue.message;
}

/** What is in the file, at most 60 characters of it, and nothing of values that may be secret. */
function show(value: unknown, path: Path): string {
  if (value === undefined || value === null) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && !(value instanceof PlainScalar)) return "a mapping";
  const body = value instanceof PlainScalar ? value.text : String(value);
  if (/key|password|pin/i.test(String(path.at(-1))) || body.includes("-----BEGIN")) return "a value not shown here";
  const short = body.length > 60 ? `${body.slice(0, 57)}...` : body;
  return typeof value === "string" ? JSON.stringify(short) : short;
}

function valueAt(root: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, part) => {
    if (typeof value !== "object" || value === null || value instanceof PlainScalar) return undefined;
    return (value as Record<string | number, unknown>)[part];
  }, root);
}

function without(root: unknown, paths: readonly Path[], at: Path = []): unknown {
  if (Array.isArray(root)) return root.map((item, i) => without(item, paths, [...at, i]));
  if (typeof root !== "object" || root === null || root instanceof PlainScalar) return root;
  const gone = new Set(
    paths.filter((p) => p.length === at.length + 1 && at.every((part, i) => part === p[i])).map((p) => p.at(-1)),
  );
  return Object.fromEntries(
    Object.entries(root)
      .filter(([key]) => !gone.has(key))
      .map(([key, value]) => [key, without(value, paths, [...at, key])]),
  );
}
