/**
 * Checks the pages of `docs/` beyond their links: links lead to each from `docs/index.md`, and the files and names of the source that pages show exist.
 * `npm run check` runs it.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { withoutFences } from "./markdown.ts";
import { findFiles, ROOT, readText, report } from "./repository.ts";
import { FIRST_PAGE, reachablePages } from "./site/pages.ts";

/** Pages that lead a reader into the source: every path on them is one of the repository. On other pages only those are that begin with one of its folders. */
const SOURCE_GUIDES = ["CONTRIBUTING.md", "docs/architecture.md"];

const FOLDER = /^(?:bench|controller|crds|docs|e2e|examples|helm|images|operator|packages|router|scripts)\//;

/** A file of the repository that a page names, and a name of that file when one follows directly. */
export interface SourcePlace {
  readonly file: string;
  readonly name?: string;
}

/** The places that a page names: `` `a/b.ts` ``, or `` `a/b.ts` `name` ``. Paths with `<…>` or `*` stand for several files and are left out. */
export function sourcePlaces(markdown: string): SourcePlace[] {
  const places = withoutFences(markdown).matchAll(/`([\w.-]+(?:\/[\w.-]+)+)`(?: `(\w+)`)?/g);
  return [...places].map(([, file = "", name]) => (name === undefined ? { file } : { file, name }));
}

if (import.meta.main) {
  const reachable = new Set(reachablePages(ROOT));
  const problems = findFiles("docs/**/*.md")
    .filter((page) => !reachable.has(page))
    .map((page) => `${page}: no link leads here from ${FIRST_PAGE}; add one`);
  for (const page of findFiles(["*.md", "docs/**/*.md", "{bench,examples}/**/*.md"])) {
    for (const { file, name } of sourcePlaces(readText(page))) {
      if (!SOURCE_GUIDES.includes(page) && !FOLDER.test(file)) continue;
      if (!existsSync(join(ROOT, file))) problems.push(`${page}: there is no ${file}`);
      else if (name !== undefined && !new RegExp(`\\b${name}\\b`).test(readText(file)))
        problems.push(`${page}: ${file} has no ${name}`);
    }
  }
  report(problems, `pages: ${reachable.size} reachable from ${FIRST_PAGE}, ${problems.length} problems`);
}
