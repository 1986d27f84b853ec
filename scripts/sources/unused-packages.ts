import { importsIn, packageOf } from "./imports.ts";

/** Those of `declared` (npm packages) that none of the sources imports. */
export function unusedPackages(declared: readonly string[], sources: readonly string[]): string[] {
  const imported = new Set(sources.flatMap(importsIn).map(({ specifier }) => packageOf(specifier)));
  return declared.filter((name) => !imported.has(name));
}
