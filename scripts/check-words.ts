/**
 * Finds words that this project does not use (words.ts) in guides, comments, strings and names. `npm run check` runs it.
 *
 *     node scripts/check-words.ts         the folders that are clean
 *     node scripts/check-words.ts --all   counts for everything, by folder and word
 */
import { withoutFences, withoutIndented, withoutInlineCode } from "./markdown.ts";
import { findFiles, readText, report } from "./repository.ts";
import { ALL, CLEAN, WORDS, type Word } from "./words.ts";

export interface WrongWord {
  readonly line: number;
  readonly found: string;
  readonly word: Word;
}

/** Wrong words of a file, in their order. Code in Markdown is not prose: it is left out. */
export function wrongWords(file: string, text: string, words: readonly Word[] = WORDS): WrongWord[] {
  const prose = file.endsWith(".md") ? withoutInlineCode(withoutIndented(withoutFences(text))) : text;
  return prose.split("\n").flatMap((line, index) =>
    words.flatMap((word) => {
      const found = word.pattern.exec(line)?.[0];
      return found === undefined || word.unless?.test(line) === true ? [] : [{ line: index + 1, found, word }];
    }),
  );
}

/** Files in which the words stand for themselves. */
const EXEMPT = ["scripts/words.ts", "scripts/check-words.test.ts", "docs/contribute/style.md"];

if (import.meta.main) {
  const all = process.argv.includes("--all");
  const files = findFiles(all ? ALL : CLEAN, ["**/generated/**", "**/*.test.ts"]).filter(
    (file) => !EXEMPT.includes(file),
  );
  const wrong = files.flatMap((file) => wrongWords(file, readText(file)).map((each) => ({ file, ...each })));
  if (all) {
    for (const [place, count] of counted(wrong.map(({ file }) => file.split("/").slice(0, 3).join("/"))))
      console.log(`${count.toString().padStart(5)}  ${place}`);
    for (const [word, count] of counted(wrong.map(({ word }) => `${word.pattern.source} -> ${word.instead}`)))
      console.log(`${count.toString().padStart(5)}  ${word}`);
  }
  const problems = wrong.map(
    ({ file, line, found, word }) => `${file}:${line}: "${found}": write ${word.instead} (scripts/words.ts)`,
  );
  report(all ? [] : problems, `words: ${files.length} files, ${wrong.length} wrong words`);
}

function counted(names: readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}
