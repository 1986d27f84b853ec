/** What a source file imports. */
import { dirname, join, normalize } from "node:path";

/** An import or export of a module: group 2 or 3 is its specifier, group 1 is there for types only. */
export const IMPORT =
  /^[ \t]*(?:import|export)\s+(type\s+)?(?:[^"';]*?\sfrom\s+)?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']\s*\)/gm;

export interface Import {
  readonly specifier: string;
  /** `import type` and `export type`. `import { type X }` is none: Node takes the name away and loads the file. */
  readonly isType: boolean;
  readonly statement: string;
  /** Where the statement begins in the source. */
  readonly index: number;
}

/** Every import of a source, in order. */
export function importsIn(source: string): Import[] {
  return [...source.matchAll(IMPORT)].map((match) => ({
    specifier: match[2] ?? match[3] ?? "",
    isType: match[1] !== undefined,
    statement: match[0],
    index: match.index,
  }));
}

/** What an import statement names between its braces; `*` for one without. */
export function namesIn(statement: string): string[] {
  const inBraces = /^[ \t]*import\s+(?:type\s+)?\{([^}]*)\}\s+from/.exec(statement)?.[1];
  if (inBraces === undefined) return ["*"];
  const names = inBraces.split(",").map(
    (name) =>
      name
        .trim()
        .replace(/^type\s+/, "")
        .split(/\s+as\s+/)[0] ?? "",
  );
  return names.filter((name) => name !== "");
}

/** `@scope/name/sub/path` -> `@scope/name` */
export function packageOf(specifier: string): string {
  const [first = "", second = ""] = specifier.split("/");
  return first.startsWith("@") ? `${first}/${second}` : first;
}

/** The repository path that a relative specifier of a file stands for. */
export const relativeTarget = (file: string, specifier: string): string => normalize(join(dirname(file), specifier));

/** The repository path that a specifier stands for, a folder for a package of this repository; undefined for npm packages and `node:` modules. */
export function repositoryPath(file: string, specifier: string): string | undefined {
  if (specifier.startsWith(".")) return relativeTarget(file, specifier);
  const own = /^@sallyport\/([^/]+)/.exec(specifier)?.[1];
  if (own === undefined) return undefined;
  return ["controller", "router", "operator", "e2e", "bench"].includes(own) ? `${own}/` : `packages/${own}/`;
}
