/** The files of this repository, as its checks read them. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "..");

/** Repository paths of the files that globs name; installed packages are left out. */
export function findFiles(globs: string | readonly string[], exclude: readonly string[] = []): string[] {
  return globSync(typeof globs === "string" ? globs : [...globs], {
    cwd: ROOT,
    exclude: ["**/node_modules/**", ...exclude],
  });
}

const texts = new Map<string, string>();

/** The text of a file, by its repository path. A check looks at the same file for several rules: it is read once. */
export function readText(file: string): string {
  const text = texts.get(file) ?? readFileSync(join(ROOT, file), "utf8");
  texts.set(file, text);
  return text;
}

/** The line, counted from 1, in which a character of a text is. */
export const lineAt = (text: string, index: number): number => text.slice(0, index).split("\n").length;

/** Prints what a check found and its closing line, and lets the process exit with 1 when it found anything. */
export function report(problems: readonly string[], summary: string): void {
  for (const problem of problems) console.error(problem);
  console.log(summary);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
