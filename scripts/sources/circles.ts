import { importsIn, relativeTarget } from "./imports.ts";

/**
 * Groups of files that import each other in a circle, `import type` included. Each group is sorted; groups are sorted by their first file.
 * @param files every product file
 * @param read the source of a file
 */
export function importCircles(files: readonly string[], read: (file: string) => string): string[][] {
  const known = new Set(files);
  const targets = new Map(
    files.map((file) => {
      const relative = importsIn(read(file)).filter(({ specifier }) => specifier.startsWith("."));
      const imported = relative.map(({ specifier }) => relativeTarget(file, specifier));
      return [file, imported.filter((target) => known.has(target))] as const;
    }),
  );
  // Tarjan's strongly connected components.
  const order = new Map<string, number>();
  const open: string[] = [];
  const circles: string[][] = [];
  const visit = (file: string): number => {
    order.set(file, order.size);
    let low = order.size - 1;
    open.push(file);
    for (const target of targets.get(file) ?? []) {
      if (!order.has(target)) low = Math.min(low, visit(target));
      else if (open.includes(target)) low = Math.min(low, order.get(target) ?? low);
    }
    if (low === order.get(file)) {
      const group = open.splice(open.indexOf(file));
      if (group.length > 1 || (targets.get(file) ?? []).includes(file)) circles.push(group.sort());
    }
    return low;
  };
  for (const file of files) if (!order.has(file)) visit(file);
  return circles.sort(([a = ""], [b = ""]) => a.localeCompare(b));
}
