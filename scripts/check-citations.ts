/**
 * What comments and guides point at exists: `docs/page.md "Section"` in a source file, and relative links of the guides.
 * `npm run check` runs it.
 */
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A page cited, with the sections named right behind it: `docs/a.md "One"`, `docs/a.md, "One" and "Two"`. */
const CITATION = /\b(docs\/[\w/.-]+?\.md)((?:(?:,| and|, and)? "[^"\n]+")*)/g;
const LINK = /\]\(([^)\s#:]*)(?:#([^)\s]*))?\)/g;

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

/** Headings of a page as plain text. */
export function headingsOf(markdown: string): string[] {
  const prose = markdown.replace(/^```[\s\S]*?^```/gm, "");
  return [...prose.matchAll(/^#{1,6} +(.+?) *$/gm)].map(([, text = ""]) => text.replaceAll("`", ""));
}

/** The anchor under which a heading can be linked to. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .replace(/\s/g, "-");
}

/** The relative links of a page: path (empty for the page itself) and anchor. */
export function linksIn(markdown: string): { readonly path: string; readonly anchor: string | undefined }[] {
  const prose = markdown.replace(/^```[\s\S]*?^```/gm, "").replace(/`[^`\n]*`/g, "");
  return [...prose.matchAll(LINK)].map(([, path = "", anchor]) => ({ path, anchor }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = join(import.meta.dirname, "..");
  const exclude = ["**/node_modules/**", "**/dist/**", "**/generated/**"];
  const find = (ending: string) =>
    globSync(`{packages,controller,router,operator,e2e,images,bench,scripts,examples}/**/*.${ending}`, {
      cwd: root,
      exclude,
    });
  const read = (file: string) => readFileSync(join(root, file), "utf8");
  const headings = new Map<string, readonly string[] | undefined>();
  const headingsAt = (page: string) => {
    if (!headings.has(page)) headings.set(page, existsSync(join(root, page)) ? headingsOf(read(page)) : undefined);
    return headings.get(page);
  };

  let cited = 0;
  const missing: string[] = [];
  for (const file of find("ts").filter((each) => !each.startsWith("scripts/check-citations"))) {
    for (const { page, section } of citationsIn(read(file))) {
      cited += 1;
      const known = headingsAt(page);
      if (known === undefined) missing.push(`${file}: there is no ${page}`);
      else if (section !== undefined && !known.includes(section))
        missing.push(`${file}: ${page} has no section "${section}"`);
    }
  }
  for (const file of [...globSync(["*.md", "docs/**/*.md"], { cwd: root }), ...find("md")]) {
    for (const { path, anchor } of linksIn(read(file))) {
      cited += 1;
      const target = path === "" ? file : join(dirname(file), path);
      if (!existsSync(join(root, target))) missing.push(`${file}: links to ${target}, which is not there`);
      else if (anchor !== undefined && !(headingsAt(target) ?? []).map(anchorOf).includes(anchor))
        missing.push(`${file}: ${target} has no heading #${anchor}`);
    }
  }
  for (const each of missing) console.error(each);
  console.log(`citations: ${cited}, ${missing.length} of what is not there`);
  process.exitCode = missing.length === 0 ? 0 : 1;
}
