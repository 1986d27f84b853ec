import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseAllDocuments, type YAMLMap } from "yaml";
import { type Environment, expandEnvironment } from "./environment.ts";
import { type ConfigProblem, type Place, RouterConfigError } from "./errors.ts";
import { resolvePlain } from "./plain-scalar.ts";

export type Path = readonly (string | number)[];

/** `["link", "dialers", 0, "split"]` is `link.dialers[0].split`. */
export function formatPath(path: Path): string {
  return path.map((part, i) => (typeof part === "number" ? `[${part}]` : i === 0 ? part : `.${part}`)).join("");
}

/** A YAML file as values with the place of each: maps are plain objects, scalars text or `PlainScalar`, null is left out. */
export interface ConfigDocument {
  readonly root: Record<string, unknown>;
  /** Place of a path, or of its nearest ancestor that exists. */
  position(path: Path): Place;
  readonly warnings: readonly ConfigProblem[];
}

/** Far more than any configuration has; aliases can make a short text endlessly large or deep. */
const MAX_VALUES = 100_000;
const MAX_DEPTH = 32;

/**
 * Reads YAML as the other implementations of this file format do: YAML 1.1 scalars without base 60, merge keys,
 * aliases, the last of two equal keys wins (with a warning), only the first document counts, and `$VAR`/`${VAR}` are
 * replaced in text values. Throws RouterConfigError with the position of each syntax error.
 */
export function readDocument(source: string, env: Environment, file?: string): ConfigDocument {
  const lines = new LineCounter();
  const documents = parseAllDocuments(source, {
    schema: "failsafe",
    uniqueKeys: false,
    lineCounter: lines,
    prettyErrors: false,
    keepSourceTokens: false,
  });
  const document = Array.isArray(documents) ? documents[0] : undefined;
  if (document === undefined) {
    throw new RouterConfigError([{ path: "", expected: "a mapping with the key v: 3", found: "an empty file" }], file);
  }
  if (document.errors.length > 0) {
    throw new RouterConfigError(
      document.errors.map((error) => {
        const place = lines.linePos(error.pos[0]);
        return { path: "", line: place.line, column: place.col, expected: "valid YAML", found: error.message };
      }),
      file,
    );
  }
  // Each alias is looked up once: the library walks the document for it.
  const targets = new Map<Node, Node | null>();
  const reader = new TreeReader(env, lines, file, (node) => {
    if (!isAlias(node)) return node;
    const known = targets.get(node);
    if (known !== undefined) return known;
    const target = node.resolve(document) ?? null;
    targets.set(node, target);
    return target;
  });
  const root = isMap(document.contents) ? reader.map(document.contents, []) : undefined;
  if (root === undefined) {
    const found = document.contents === null || isScalar(document.contents) ? "no mapping" : "a list";
    throw new RouterConfigError([{ path: "", expected: "a mapping with the key v: 3", found }], file);
  }
  if (Array.isArray(documents) && documents.length > 1) {
    reader.warnings.push({ path: "", expected: "one document", found: "several; only the first is read" });
  }
  return { root, position: (path) => reader.position(path), warnings: reader.warnings };
}

class TreeReader {
  readonly warnings: ConfigProblem[] = [];
  readonly #positions = new Map<string, Place>();
  readonly #env: Environment;
  readonly #lines: LineCounter;
  readonly #resolve: (node: Node) => Node | null;
  readonly #file: string | undefined;
  #values = 0;
  #merges = 0;

  constructor(env: Environment, lines: LineCounter, file: string | undefined, resolve: (node: Node) => Node | null) {
    this.#env = env;
    this.#file = file;
    this.#lines = lines;
    this.#resolve = resolve;
  }

  position(path: Path): Place {
    for (let length = path.length; length >= 0; length--) {
      const found = this.#positions.get(formatPath(path.slice(0, length)));
      if (found !== undefined) return found;
    }
    return { line: 1, column: 1 };
  }

  map(node: YAMLMap, path: Path): Record<string, unknown> {
    const out: Record<string, unknown> = Object.create(null);
    this.#mark(path, node);
    const own = new Set<string>();
    for (const pair of node.items) {
      const key = isScalar(pair.key) ? String(pair.key.value ?? "") : "";
      const value = pair.value as Node | null;
      if (key === "<<") {
        this.#merge(out, own, value, path);
        continue;
      }
      const at = [...path, key];
      if (own.has(key)) {
        const place = this.#place(pair.key as Node);
        this.warnings.push({ path: formatPath(at), ...place, expected: "each key once", found: "the key again" });
      }
      own.add(key);
      const read = value === null ? undefined : this.value(value, at);
      this.#mark(at, (pair.key as Node | null) ?? value);
      if (read !== undefined) {
        out[key] = read;
        continue;
      }
      delete out[key];
      if (path.length === 0) {
        const place = this.#place(pair.key as Node);
        this.warnings.push({ path: key, ...place, expected: "a value ({} for an empty mapping)", found: "nothing" });
      }
    }
    return out;
  }

  value(node: Node, path: Path): unknown {
    if (++this.#values > MAX_VALUES || path.length > MAX_DEPTH) {
      const limits = `at most ${MAX_VALUES} values, ${MAX_DEPTH} levels deep`;
      throw new RouterConfigError(
        [{ path: formatPath(path.slice(0, 4)), expected: limits, found: "more" }],
        this.#file,
      );
    }
    const target = this.#resolve(node);
    if (target === null) return undefined;
    if (isMap(target)) return this.map(target, path);
    if (isSeq(target)) {
      return target.items.map((item, i) => {
        this.#mark([...path, i], item as Node);
        return this.value(item as Node, [...path, i]) ?? null;
      });
    }
    if (!isScalar(target)) return undefined;
    const text = String(target.value ?? "");
    const plain = target.type === "PLAIN" && target.tag === undefined ? resolvePlain(target.source ?? text) : text;
    if (plain === null) return undefined;
    return typeof plain === "string" ? expandEnvironment(text, this.#env) : plain;
  }

  /** Merges within merges count as depth, because a map can be made to merge itself. */
  #merged(map: YAMLMap, path: Path): Record<string, unknown> {
    if (++this.#merges > MAX_DEPTH) {
      const limits = `at most ${MAX_DEPTH} merges within each other`;
      throw new RouterConfigError([{ path: formatPath(path), expected: limits, found: "more" }], this.#file);
    }
    try {
      return this.map(map, path);
    } finally {
      this.#merges--;
    }
  }

  /** Keys of a merged map never replace keys the map itself has, before or after. */
  #merge(out: Record<string, unknown>, own: ReadonlySet<string>, value: Node | null, path: Path): void {
    const target = value === null ? null : this.#resolve(value);
    const sources = isSeq(target) ? (target.items as Node[]) : [target];
    for (const source of sources) {
      const map = source === null ? null : this.#resolve(source);
      if (!isMap(map)) continue;
      for (const [key, merged] of Object.entries(this.#merged(map, path))) {
        if (!own.has(key) && !(key in out)) out[key] = merged;
      }
    }
  }

  #place(node: Node | null): Place {
    const place = this.#lines.linePos(node?.range?.[0] ?? 0);
    return { line: Math.max(place.line, 1), column: Math.max(place.col, 1) };
  }

  #mark(path: Path, node: Node | null): void {
    this.#positions.set(formatPath(path), this.#place(node));
  }
}
