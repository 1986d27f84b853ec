/**
 * Checks the pages of `docs/` beyond their links: links lead to each from `docs/index.md`, and the files and names that the maintainers' pages show exist.
 * `npm run check` runs it.
 */
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FIRST_PAGE, reachablePages } from "./site/pages.ts";

/** Pages that lead a reader into the source. */
const SOURCE_GUIDES = ["CONTRIBUTING.md", "docs/architecture.md"];

/** A file of the repository that a page names, and a name of that file when one follows directly. */
export interface SourcePlace {
  readonly file: string;
  readonly name?: string;
}

/** The places that a page names: `` `a/b.ts` ``, or `` `a/b.ts` `name` ``. Paths with `<…>` or `*` stand for several files and are left out. */
export function sourcePlaces(markdown: string): SourcePlace[] {
  const prose = markdown.replace(/^```[\s\S]*?^```/gm, "");
  const places = prose.matchAll(/`([\w.-]+(?:\/[\w.-]+)+)`(?: `(\w+)`)?/g);
  return [...places].map(([, file = "", name]) => (name === undefined ? { file } : { file, name }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = join(import.meta.dirname, "..");
  const reachable = new Set(reachablePages(root));
  const problems = globSync("docs/**/*.md", { cwd: root })
    .filter((page) => !reachable.has(page))
    .map((page) => `${page}: no link leads here from ${FIRST_PAGE}; add one`);
  for (const page of SOURCE_GUIDES) {
    for (const { file, name } of sourcePlaces(readFileSync(join(root, page), "utf8"))) {
      const isThere = existsSync(join(root, file));
      if (!isThere) problems.push(`${page}: there is no ${file}`);
      else if (name !== undefined && !new RegExp(`\\b${name}\\b`).test(readFileSync(join(root, file), "utf8")))
        problems.push(`${page}: ${file} has no ${name}`);
    }
  }
  for (const problem of problems) console.error(problem);
  console.log(`pages: ${reachable.size} reachable from ${FIRST_PAGE}, ${problems.length} problems`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}
