/**
 * What `docs/compatibility.md` says of tests holds: each suite that a table names exists, each cell of the tables of programs and their versions has one of the
 * known forms, and each "no" there has its reason as a sentence. `npm run check` runs it.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ROOT, readText, report } from "./repository.ts";

const PAGE = "docs/compatibility.md";
/** Where the names of suites begin. */
const BASES = ["e2e/peers", "e2e/peers/cli", "e2e/system", "e2e", "."];
const ENDINGS = [".test.ts", ".ts", ""];
/** Not a test: run by hand, or read in the sources. */
const WORDS = ["by hand", "read", "–"];
const NO = /^no \(([a-z])\)$/;
const SUITE = /^`([^`]+)`$/;
const REASON = /^- \(([a-z])\) (.+)$/gm;

export interface Problems {
  readonly suites: number;
  readonly problems: readonly string[];
}

/** @param isThere whether a repository path exists */
export function checkCompatibility(page: string, isThere: (path: string) => boolean): Problems {
  const problems: string[] = [];
  const named = new Set<string>();
  const reasons = new Map([...page.matchAll(REASON)].map(([, letter = "", text = ""]) => [letter, text.trim()]));
  const used = new Set<string>();
  const suite = (name: string, where: string): void => {
    named.add(name);
    const path = name.replace(/\/\*$/, "");
    const candidates = BASES.flatMap((base) => ENDINGS.map((ending) => `${join(base, path)}${ending}`));
    if (!candidates.some(isThere)) problems.push(`${where}: there is no suite ${name}`);
  };
  for (const { header, rows } of tablesOf(page)) {
    const suiteColumn = header.findIndex((each) => /^suites?$/i.test(each));
    for (const cells of rows) {
      if (header[1] === "version") {
        for (const [column, cell] of cells.entries()) {
          if (column < 2) continue;
          const where = `${cells[0]} ${cells[1]}, ${header[column]}`;
          for (const part of cell.split(" · ")) {
            const [, name] = SUITE.exec(part) ?? [];
            const [, letter] = NO.exec(part) ?? [];
            if (name !== undefined) suite(name, where);
            else if (letter !== undefined) used.add(letter);
            else if (!WORDS.includes(part))
              problems.push(`${where}: expected a suite, ${WORDS.join(", ")} or no (a), got ${JSON.stringify(part)}`);
          }
        }
      } else if (suiteColumn >= 0) {
        for (const [, name = ""] of (cells[suiteColumn] ?? "").matchAll(/`([^`]+)`/g)) suite(name, `${cells[0]}`);
      }
    }
  }
  for (const letter of used) {
    if (!/\w.*[.:)]$/.test(reasons.get(letter) ?? ""))
      problems.push(`no (${letter}): there is no sentence "- (${letter}) …" that says why`);
  }
  for (const letter of reasons.keys()) if (!used.has(letter)) problems.push(`(${letter}): no cell needs this reason`);
  return { suites: named.size, problems };
}

interface Table {
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

function tablesOf(page: string): Table[] {
  const blocks = page.match(/(?:^\|.*\n)+/gm) ?? [];
  return blocks.map((block) => {
    const [header = [], , ...rows] = block.trimEnd().split("\n").map(cellsOf);
    return { header, rows };
  });
}

const cellsOf = (line: string): string[] =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());

if (import.meta.main) {
  const { suites, problems } = checkCompatibility(readText(PAGE), (path) => existsSync(join(ROOT, path)));
  report(
    problems.map((problem) => `${PAGE}: ${problem}`),
    `compatibility: ${suites} suites named, ${problems.length} problems`,
  );
}
