import type { UnreachedRule } from "./dependency-rules.ts";
import { importsIn, relativeTarget } from "./imports.ts";

/**
 * Each way, file by file, on which a program loads what it must not. `import { type X }` counts: Node takes the name away and loads the file.
 * @param read the source of a file
 */
export function forbiddenWays(rule: UnreachedRule, read: (file: string) => string): string[][] {
  const found: string[][] = [];
  const seen = new Set([rule.entry]);
  const ways = [[rule.entry]];
  for (const way of ways) {
    const file = way.at(-1) ?? "";
    const loaded = importsIn(read(file)).filter(({ isType }) => !isType);
    const specifiers = loaded.map(({ specifier }) => specifier);
    if (file.startsWith(rule.under) && specifiers.includes(rule.package)) found.push(way);
    // Packages are not followed: none of them imports a program.
    for (const specifier of specifiers.filter((each) => each.startsWith("."))) {
      const target = relativeTarget(file, specifier);
      if (!seen.has(target)) ways.push([...way, target]);
      seen.add(target);
    }
  }
  return found;
}
