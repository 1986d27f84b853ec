/**
 * What comments and guides point at exists: `docs/page.md "Section"` in a source file, and relative links of the guides.
 * `npm run check` runs it.
 */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { anchorOf, headingsOf, linksIn } from "./markdown.ts";
import { findFiles, ROOT, readText, report } from "./repository.ts";

/** A page cited, with the sections named right behind it: `docs/a.md "One"`, `docs/a.md, "One" and "Two"`. */
const CITATION = /\b(docs\/[\w/.-]+?\.md)((?:(?:,| and|, and)? "[^"\n]+")*)/g;

export interface Citation {
  readonly page: string;
  readonly section?: string;
}

/** What a source file cites; a citation may run over the end of a comment's line. */
export function citationsIn(source: string): Citation[] {
  const flowing = source.replace(/\n[ \t]*(?:\*(?!\/)|\/\/)?[ \t]*/g, " ");
  return [...flowing.matchAll(CITATION)].flatMap(([, page = "", sections = ""]) => {
    const named = [...sections.matchAll(/"([^"]+)"/g)].map(([, section = ""]) => ({ page, section }));
    return named.length > 0 ? named : [{ page }];
  });
}

if (import.meta.main) {
  const find = (ending: string) =>
    findFiles(`{packages,controller,router,operator,cli,e2e,images,bench,scripts,examples}/**/*.${ending}`, [
      ...["**/dist/**", "**/generated/**"],
    ]);
  const isThere = (path: string) => existsSync(join(ROOT, path));
  const headings = new Map<string, readonly string[] | undefined>();
  const headingsAt = (page: string) => {
    if (!headings.has(page)) headings.set(page, isThere(page) ? headingsOf(readText(page)) : undefined);
    return headings.get(page);
  };

  let cited = 0;
  const missing: string[] = [];
  for (const file of find("ts").filter((each) => !each.startsWith("scripts/check-citations"))) {
    for (const { page, section } of citationsIn(readText(file))) {
      cited += 1;
      const known = headingsAt(page);
      if (known === undefined) missing.push(`${file}: there is no ${page}`);
      else if (section !== undefined && !known.includes(section))
        missing.push(`${file}: ${page} has no section "${section}"`);
    }
  }
  for (const file of [...findFiles(["*.md", "docs/**/*.md"]), ...find("md")]) {
    for (const { path, anchor } of linksIn(readText(file))) {
      cited += 1;
      const target = path === "" ? file : join(dirname(file), path);
      if (!isThere(target)) missing.push(`${file}: links to ${target}, which is not there`);
      else if (anchor !== undefined && !(headingsAt(target) ?? []).map(anchorOf).includes(anchor))
        missing.push(`${file}: ${target} has no heading #${anchor}`);
    }
  }
  report(missing, `citations: ${cited}, ${missing.length} of what is not there`);
}
