/**
 * Finds words that this project does not use (words.ts) in guides, comments, strings and names. `npm run check` runs it.
 */
import { withoutFences, withoutIndented, withoutInlineCode } from "./markdown.ts";
import { findFiles, readText, report } from "./repository.ts";
import { CHECKED, WORDS, type Word } from "./words.ts";

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

/** Files in which the words stand for themselves, and a migration: its SQL never changes. */
const EXEMPT = [
  "scripts/words.ts",
  "scripts/check-words.test.ts",
  "docs/contribute/style.md",
  "controller/src/store/migrations/0020_epoch.ts",
];

if (import.meta.main) {
  const files = findFiles(CHECKED, ["**/generated/**", "**/*.test.ts"]).filter((file) => !EXEMPT.includes(file));
  const problems = files.flatMap((file) =>
    wrongWords(file, readText(file)).map(
      ({ line, found, word }) => `${file}:${line}: "${found}": write ${word.instead} (scripts/words.ts)`,
    ),
  );
  report(problems, `words: ${files.length} files, ${problems.length} wrong words`);
}
