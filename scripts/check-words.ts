/**
 * Finds words that this project does not use (words.ts) in guides, comments, strings and names. `npm run check` runs it.
 *
 *     node scripts/check-words.ts         the folders that are clean
 *     node scripts/check-words.ts --all   counts for everything, by folder and word
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ALL, CLEAN, NOT_CLEAN, WORDS, type Word } from "./words.ts";

export interface WrongWord {
  readonly line: number;
  readonly found: string;
  readonly word: Word;
}

/** Wrong words of a file, in their order. Code in Markdown is not prose: it is left out. */
export function wrongWords(file: string, text: string, words: readonly Word[] = WORDS): WrongWord[] {
  const prose = file.endsWith(".md") ? withoutCode(text) : text;
  return prose.split("\n").flatMap((line, index) =>
    words.flatMap((word) => {
      const found = word.pattern.exec(line)?.[0];
      return found === undefined || word.unless?.test(line) === true ? [] : [{ line: index + 1, found, word }];
    }),
  );
}

/** Markdown with its code blanked; every line stays where it is. */
function withoutCode(markdown: string): string {
  const blank = (code: string) => code.replace(/[^\n]/g, " ");
  return markdown
    .replace(/^```[\s\S]*?^```/gm, blank)
    .replace(/^(?: {4}|\t).*$/gm, blank)
    .replace(/`[^`\n]*`/g, blank);
}

/** Files in which the words stand for themselves. */
const EXEMPT = ["scripts/words.ts", "scripts/check-words.test.ts", "docs/contribute/style.md"];

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = join(import.meta.dirname, "..");
  const all = process.argv.includes("--all");
  const files = globSync([...(all ? ALL : CLEAN)], {
    cwd: root,
    exclude: ["**/node_modules/**", "**/generated/**", "**/*.test.ts"],
  }).filter((file) => !EXEMPT.includes(file) && (all || !NOT_CLEAN.includes(file)));
  const wrong = files.flatMap((file) =>
    wrongWords(file, readFileSync(join(root, file), "utf8")).map((each) => ({ file, ...each })),
  );
  if (all) {
    for (const [place, count] of counted(wrong.map(({ file }) => file.split("/").slice(0, 3).join("/"))))
      console.log(`${count.toString().padStart(5)}  ${place}`);
    for (const [word, count] of counted(wrong.map(({ word }) => `${word.pattern.source} -> ${word.instead}`)))
      console.log(`${count.toString().padStart(5)}  ${word}`);
  } else {
    for (const { file, line, found, word } of wrong)
      console.error(`${file}:${line}: "${found}": write ${word.instead} (scripts/words.ts)`);
    process.exitCode = wrong.length === 0 ? 0 : 1;
  }
  console.log(`words: ${files.length} files, ${wrong.length} wrong words`);
}

function counted(names: readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}
