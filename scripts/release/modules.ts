/** What the compiler wrote, as modules of a package: which of them are needed, and by what names they find each other. */
import { dirname, join, relative } from "node:path/posix";
import { IMPORT, packageOf } from "../sources/imports.ts";

/** A module names something that the package cannot have. */
export class ModuleError extends Error {
  override name = "ModuleError";
}

/** Where a module finds what it names. */
export type Target =
  /** Another module of the package. */
  | { readonly module: string }
  /** A package of npm, under the name that it is asked for by. */
  | { readonly specifier: string };

export interface ReachedModules {
  /** Text by path; what they name is what it is called in the package. */
  readonly modules: ReadonlyMap<string, string>;
  /** Names of the npm packages that they ask for, in one order. */
  readonly packages: readonly string[];
}

/**
 * Modules that are reached from the first ones, with their specifiers put right.
 *
 * @param read text of a module, undefined where there is none
 * @param resolve what a specifier in a module stands for
 * @param entries paths of modules to begin with
 * @throws ModuleError for a module that is not there
 */
export function reachedModules(
  entries: readonly string[],
  read: (path: string) => string | undefined,
  resolve: (specifier: string, from: string) => Target,
): ReachedModules {
  const modules = new Map<string, string>();
  const packages = new Set<string>();
  const waiting = entries.map((path) => ({ path, from: "the package's exports" }));
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const { path, from } = next;
    if (modules.has(path)) continue;
    const text = read(path);
    if (text === undefined) throw new ModuleError(`${path} is not there, and ${from} names it`);
    const own = text.replaceAll(IMPORT, (statement: string, _type, first?: string, second?: string) => {
      const specifier = first ?? second ?? "";
      const target = resolve(specifier, path);
      if ("module" in target) waiting.push({ path: target.module, from: path });
      else if (!target.specifier.startsWith("node:")) packages.add(packageOf(target.specifier));
      const name = "module" in target ? relativeSpecifier(path, target.module) : target.specifier;
      return statement.replace(`"${specifier}"`, `"${name}"`);
    });
    modules.set(path, own);
  }
  return { modules, packages: [...packages].sort() };
}

/** Node and the compiler both find a declaration by the name of the JavaScript beside it. */
function relativeSpecifier(from: string, to: string): string {
  const path = relative(dirname(from), to.replace(/\.d\.ts$/, ".js"));
  return path.startsWith(".") ? path : `./${path}`;
}

/** The compiler's output for a specifier of a source: of a declaration's neighbours the declarations count. */
export function neighbourOf(specifier: string, from: string): string {
  const isDeclaration = from.endsWith(".d.ts");
  return join(dirname(from), specifier.replace(/\.(ts|js)$/, isDeclaration ? ".d.ts" : ".js"));
}
