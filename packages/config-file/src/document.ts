import { readFile } from "node:fs/promises";
import { errorText } from "@sallyport/async";
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseAllDocuments,
  type Scalar,
  type YAMLMap,
} from "yaml";
import { ConfigError, type ConfigProblem, formatPath, type Path, type Place } from "./problems.ts";

/** How a file reads YAML. */
export interface Dialect {
  /**
   * `strict`: YAML 1.2, each key once, one document. `lenient`: as Go programs read YAML 1.1, with merge keys; of a key
   * that stands twice the last counts, of several documents the first, and both are warnings.
   */
  readonly form: "strict" | "lenient";
  /** The value of a scalar, `undefined` for none. In the lenient form `node.value` is its text. */
  scalar(node: Scalar, place: Place): unknown;
}

/** A YAML file as values with the place of each. Maps are plain objects; a key without a value is left out. */
export interface ConfigDocument {
  readonly root: Readonly<Record<string, unknown>>;
  readonly warnings: readonly ConfigProblem[];
  /** Keys without a value. */
  readonly emptyKeys: readonly Path[];
  /** Where a key stands, or the nearest one above it that is there. */
  readonly keyPlace: (path: Path) => Place;
  /** Where a scalar or list stands; for a mapping that is the place of its key. */
  readonly valuePlace: (path: Path) => Place;
}

/** Far more than any configuration has; aliases can make a short text endlessly large or deep. */
const MAX_VALUES = 100_000;
const MAX_DEPTH = 32;

/** Reads the text of a file. @throws ConfigError when that is not possible */
export async function readConfigText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw new ConfigError(file, [{ path: "", expected: "a file that can be read", found: errorText(error) }]);
  }
}

/**
 * Reads YAML: values, aliases, and the place of every key.
 *
 * @param o.content what the file should hold, for the error about one that holds something else
 * @throws ConfigError with the place of each syntax error
 */
export function readDocument(
  source: string,
  o: { readonly dialect: Dialect; readonly file?: string | undefined; readonly content: string },
): ConfigDocument {
  const { dialect, file, content } = o;
  const lines = new LineCounter();
  const isStrict = dialect.form === "strict";
  const documents = parseAllDocuments(source, {
    schema: isStrict ? "core" : "failsafe",
    uniqueKeys: isStrict,
    lineCounter: lines,
    prettyErrors: false,
    keepSourceTokens: false,
  });
  const [document, second] = Array.isArray(documents) ? documents : [];
  const refuse = (...problems: ConfigProblem[]): never => {
    throw new ConfigError(file, problems);
  };
  if (document === undefined) return refuse({ path: "", expected: content, found: "an empty file" });
  const several = { path: "", expected: "one document", found: "several; only the first is read" };
  const errors = document.errors.map(({ pos, message }) => {
    return { path: "", ...placeAt(lines, pos[0]), expected: "valid YAML", found: message };
  });
  if (errors.length > 0) refuse(...errors);
  if (second !== undefined && isStrict) refuse({ ...several, found: "several" });
  const root = document.contents;
  if (!isMap(root)) return refuse({ path: "", expected: content, found: isSeq(root) ? "a list" : "no mapping" });
  const reader = new TreeReader(document, dialect, lines, file);
  reader.placeRoot(root);
  const values = reader.map(root, []);
  if (second !== undefined) reader.warnings.push(several);
  return {
    root: values,
    warnings: reader.warnings,
    emptyKeys: reader.emptyKeys,
    keyPlace: (path) => reader.place(path)?.key ?? FIRST,
    valuePlace: (path) => reader.place(path)?.value ?? FIRST,
  };
}

const FIRST: Place = { line: 1, column: 1 };

function placeAt(lines: LineCounter, offset: number): Place {
  const { line, col } = lines.linePos(offset);
  return { line: Math.max(line, 1), column: Math.max(col, 1) };
}

class TreeReader {
  readonly warnings: ConfigProblem[] = [];
  readonly emptyKeys: Path[] = [];
  readonly #places = new Map<string, { readonly key: Place; readonly value: Place }>();
  /** Each alias is looked up once: the library walks the document for it. */
  readonly #targets = new Map<Node, Node>();
  readonly #document: Document;
  readonly #dialect: Dialect;
  readonly #lines: LineCounter;
  readonly #file: string | undefined;
  #values = 0;
  #merges = 0;

  constructor(document: Document, dialect: Dialect, lines: LineCounter, file: string | undefined) {
    this.#document = document;
    this.#dialect = dialect;
    this.#lines = lines;
    this.#file = file;
  }

  placeRoot(node: Node): void {
    const place = this.#placeOf(node);
    this.#places.set("", { key: place, value: place });
  }

  place(path: Path): { readonly key: Place; readonly value: Place } | undefined {
    for (let length = path.length; length >= 0; length--) {
      const found = this.#places.get(formatPath(path.slice(0, length)));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  map(node: YAMLMap, path: Path): Record<string, unknown> {
    const out: Record<string, unknown> = Object.create(null);
    const own = new Set<string>();
    for (const pair of node.items) {
      const key = isScalar(pair.key) ? String(pair.key.value ?? "") : "";
      const value = pair.value as Node | null;
      if (key === "<<" && this.#dialect.form === "lenient") {
        this.#merge(out, own, value, path);
        continue;
      }
      const at = [...path, key];
      const keyPlace = this.#placeOf((pair.key as Node | null) ?? value);
      if (own.has(key)) {
        this.warnings.push({ path: formatPath(at), ...keyPlace, expected: "each key once", found: "the key again" });
      }
      own.add(key);
      const read = value === null ? undefined : this.#value(value, at);
      const valuePlace = value === null || isMap(value) ? keyPlace : this.#placeOf(value);
      this.#places.set(formatPath(at), { key: keyPlace, value: valuePlace });
      if (read !== undefined) {
        out[key] = read;
        continue;
      }
      delete out[key];
      this.emptyKeys.push(at);
    }
    return out;
  }

  #value(node: Node, path: Path): unknown {
    if (++this.#values > MAX_VALUES || path.length > MAX_DEPTH) {
      this.#refuse(path.slice(0, 4), node, `at most ${MAX_VALUES} values, ${MAX_DEPTH} levels deep`, "more");
    }
    const target = this.#resolve(node, path);
    if (isMap(target)) return this.map(target, path);
    if (isSeq(target)) {
      return target.items.map((item, i) => {
        const place = this.#placeOf(item as Node);
        this.#places.set(formatPath([...path, i]), { key: place, value: place });
        return this.#value(item as Node, [...path, i]) ?? null;
      });
    }
    return isScalar(target) ? this.#dialect.scalar(target, this.#placeOf(node)) : undefined;
  }

  #resolve(node: Node, path: Path): Node {
    if (!isAlias(node)) return node;
    const known = this.#targets.get(node);
    if (known !== undefined) return known;
    const target = node.resolve(this.#document);
    if (target === undefined) {
      return this.#refuse(path, node, "an alias (*name) of something above it", `*${node.source}`);
    }
    this.#targets.set(node, target);
    return target;
  }

  /** Keys of a merged map never replace keys the map itself has, before or after. */
  #merge(out: Record<string, unknown>, own: ReadonlySet<string>, value: Node | null, path: Path): void {
    const target = value === null ? null : this.#resolve(value, path);
    const sources = isSeq(target) ? (target.items as Node[]) : target === null ? [] : [target];
    for (const source of sources) {
      const map = this.#resolve(source, path);
      if (!isMap(map)) continue;
      for (const [key, merged] of Object.entries(this.#merged(map, path))) {
        if (!own.has(key) && !(key in out)) out[key] = merged;
      }
    }
  }

  /** Merges within merges count as depth, because a map can be made to merge itself. */
  #merged(map: YAMLMap, path: Path): Record<string, unknown> {
    if (++this.#merges > MAX_DEPTH) {
      this.#refuse(path, map, `at most ${MAX_DEPTH} merges within each other`, "more");
    }
    try {
      return this.map(map, path);
    } finally {
      this.#merges--;
    }
  }

  #placeOf(node: Node | null): Place {
    return placeAt(this.#lines, node?.range?.[0] ?? 0);
  }

  #refuse(path: Path, node: Node, expected: string, found: string): never {
    throw new ConfigError(this.#file, [{ path: formatPath(path), ...this.#placeOf(node), expected, found }]);
  }
}
