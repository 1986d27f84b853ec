/** YAML documents that users declare a network with, each with the place of every value in it. */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorText } from "@sallyport/async";
import type { Document, Node, Pair } from "yaml";
import type { CommandContext } from "../context.ts";
import { CommandError } from "../errors.ts";
import { givenText } from "../terminal/given-text.ts";

export type Path = readonly (string | number)[];

/** What is wrong, or has no effect, and where: `web.yml:12:5`. */
export interface Finding {
  readonly place: string;
  readonly text: string;
}

export interface DeclaredDocument {
  readonly value: unknown;
  /** Words in it that a cluster reads otherwise: problems of resources, and of no other document. */
  readonly ambiguous: readonly Finding[];
  /** Where a value stands; of one that is not there, where the nearest one above it is. `key`: where its key does. */
  readonly placeOf: (path: Path, at?: "key" | "value") => string;
}

interface Documents {
  readonly documents: readonly DeclaredDocument[];
  readonly problems: readonly Finding[];
}

/** A network of a hundred thousand resources has less. */
const MAX_BYTES = 128 * 1024 * 1024;

const ENDING = /\.(ya?ml|json)$/i;

/**
 * Reads files, the YAML and JSON files of folders, and `-`, the standard input.
 *
 * @throws CommandError when one cannot be read
 */
export async function readDocuments(
  given: readonly string[],
  isRecursive: boolean,
  context: CommandContext,
): Promise<Documents> {
  const documents: DeclaredDocument[] = [];
  const problems: Finding[] = [];
  for (const file of new Set((await Promise.all(given.map((each) => filesOf(each, isRecursive)))).flat())) {
    const source = await givenText(file, context, MAX_BYTES);
    const read = await documentsOf(source, file === "-" ? "standard input" : file);
    documents.push(...read.documents);
    problems.push(...read.problems);
  }
  if (documents.length === 0 && problems.length === 0)
    throw new CommandError(`${given.join(", ")} declares nothing: expected YAML documents with apiVersion and kind`);
  return { documents, problems };
}

async function filesOf(given: string, isRecursive: boolean): Promise<string[]> {
  if (given === "-") return [given];
  try {
    if (!(await stat(given)).isDirectory()) return [given];
    const entries = await readdir(given, { withFileTypes: true, recursive: isRecursive });
    const files = entries.filter((entry) => entry.isFile() && ENDING.test(entry.name));
    if (files.length > 0) return files.map(({ parentPath, name }) => join(parentPath, name)).sort();
  } catch (error) {
    throw new CommandError(`cannot read ${given}: ${errorText(error)}`);
  }
  const deeper = isRecursive ? "" : "; -R looks into the folders below it";
  throw new CommandError(`the folder ${given} has no file that ends in .yml, .yaml or .json${deeper}`);
}

/** The documents of one text. */
export async function documentsOf(source: string, file: string): Promise<Documents> {
  const { LineCounter, parseAllDocuments } = await import("yaml");
  const lineCounter = new LineCounter();
  const placeAt = (offset: number): string => {
    const { line, col } = lineCounter.linePos(offset);
    return `${file}:${Math.max(line, 1)}:${Math.max(col, 1)}`;
  };
  const documents: DeclaredDocument[] = [];
  const problems: Finding[] = [];
  let parsed: readonly Document[];
  try {
    const all = parseAllDocuments(source, { schema: "core", merge: true, lineCounter, prettyErrors: false });
    parsed = Array.isArray(all) ? all : [];
  } catch (error) {
    // Thousands of levels exhaust the stack.
    return { documents, problems: [{ place: placeAt(0), text: `no YAML that can be read: ${errorText(error)}` }] };
  }
  for (const document of parsed) {
    if (document.errors.length > 0) {
      problems.push(...document.errors.map(({ pos, message }) => ({ place: placeAt(pos[0]), text: message })));
      continue;
    }
    try {
      // What refers to itself cannot be written as JSON.
      const value: unknown = JSON.parse(JSON.stringify(document.toJS({ maxAliasCount: 100 }) ?? null));
      if (value !== null) {
        const [placeOf, ambiguous] = [await finder(document, placeAt), await ambiguousTexts(document, placeAt)];
        documents.push(...withItems({ value, placeOf, ambiguous }));
      }
    } catch (error) {
      problems.push({ place: placeAt(document.range?.[0] ?? 0), text: `cannot be used: ${errorText(error)}` });
    }
  }
  return { documents, problems };
}

/** A list, as `kubectl get -o yaml` prints it, is its items. */
function withItems(document: DeclaredDocument): DeclaredDocument[] {
  const { placeOf, ambiguous } = document;
  const { apiVersion, kind, items } = document.value as { apiVersion?: unknown; kind?: unknown; items?: unknown };
  if (apiVersion !== "v1" || kind !== "List" || !Array.isArray(items)) return [document];
  return items.map((item: unknown, index) => ({
    value: item,
    ambiguous: index === 0 ? ambiguous : [],
    placeOf: (path, at) => placeOf(["items", index, ...path], at),
  }));
}

async function finder(document: Document, placeAt: (offset: number) => string): Promise<DeclaredDocument["placeOf"]> {
  const { isAlias, isMap, isScalar, isSeq } = await import("yaml");
  return (path, at = "value") => {
    let node: Node | null | undefined = document.contents;
    let place = node;
    for (const part of path) {
      if (isAlias(node)) node = node.resolve(document);
      if (isMap(node)) {
        const pair: Pair | undefined = node.items.find(
          ({ key }) => isScalar(key) && String(key.value) === String(part),
        );
        if (pair === undefined) break;
        node = pair.value as Node | null;
        // Of a mapping the key says more than its first field.
        const isBelow = node === null || isMap(node) || at === "key";
        place = isBelow ? (pair.key as Node) : node;
      } else if (isSeq(node)) {
        node = node.items[Number(part)] as Node | undefined;
        if (node === undefined) break;
        place = node;
      } else break;
    }
    return placeAt(place?.range?.[0] ?? 0);
  };
}

/**
 * Plain words that a cluster's tools read by YAML 1.1: `no` is false there and `0644` a number of base 8. What is meant has to be said, so that a file means the same
 * everywhere.
 */
const AMBIGUOUS: readonly (readonly [RegExp, (text: string) => string])[] = [
  [/^(y|yes|on)$/i, (text) => `a cluster reads ${text} as true: write true, or "${text}" for the text`],
  [/^(n|no|off)$/i, (text) => `a cluster reads ${text} as false: write false, or "${text}" for the text`],
  [/^[-+]?\.(inf|nan)$/i, (text) => `no resource can have ${text}: write a number, or "${text}" for the text`],
  [
    /^[-+]?(0[0-7_]+|0b[01_]+|[0-9][0-9_]*_[0-9_]*)$/i,
    (text) => `a cluster reads ${text} as another number: write a decimal number, or "${text}" for the text`,
  ],
];

async function ambiguousTexts(document: Document, placeAt: (offset: number) => string): Promise<Finding[]> {
  const { Scalar, visit } = await import("yaml");
  const found: Finding[] = [];
  visit(document, {
    Scalar(_key, { type, source = "", value, range }) {
      const isPlain = type === Scalar.PLAIN;
      const isRounded = isPlain && Number.isInteger(value) && !Number.isSafeInteger(value);
      const text = isRounded
        ? `${source} would be rounded: write a smaller number, or "${source}" for the text`
        : isPlain && AMBIGUOUS.find(([pattern]) => pattern.test(source))?.[1](source);
      if (typeof text === "string") found.push({ place: placeAt(range?.[0] ?? 0), text });
    },
  });
  return found;
}
