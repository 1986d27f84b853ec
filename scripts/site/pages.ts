/** The pages of the documentation: every Markdown file that links lead to from `docs/index.md`. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { linksIn } from "../markdown.ts";

export const FIRST_PAGE = "docs/index.md";

/** An entry of the navigation. */
export interface NavigationEntry {
  readonly title: string;
  /** Repository path of the page. */
  readonly page: string;
}

/** A heading of the first page with the pages below it. */
export interface NavigationGroup {
  readonly title: string;
  readonly entries: readonly NavigationEntry[];
}

/**
 * The page that a link leads to.
 * @param path the link's path, relative to `page`; a folder means its README.md
 * @returns a repository path, or undefined when there is no page
 */
export function linkedPage(root: string, page: string, path: string): string | undefined {
  if (path === "") return page;
  const target = join(dirname(page), path);
  const file = join(root, target);
  if (!existsSync(file)) return undefined;
  if (statSync(file).isDirectory()) return linkedPage(root, join(target, "README.md"), "README.md");
  return target.endsWith(".md") ? target : undefined;
}

/** Repository paths of all pages that links lead to, the first page at the beginning. */
export function reachablePages(root: string, first = FIRST_PAGE): readonly string[] {
  const pages = [first];
  for (const page of pages) {
    const links = linksIn(readFileSync(join(root, page), "utf8"));
    for (const { path } of links) {
      const target = linkedPage(root, page, path);
      if (target !== undefined && !pages.includes(target)) pages.push(target);
    }
  }
  return pages;
}

/** The navigation: the headings of the first page, and below each the first link of every list entry or table row. */
export function navigation(root: string, first = FIRST_PAGE): readonly NavigationGroup[] {
  const groups: { title: string; entries: NavigationEntry[] }[] = [];
  for (const line of readFileSync(join(root, first), "utf8").split("\n")) {
    const heading = /^## +(.+?) *$/.exec(line)?.[1];
    if (heading !== undefined) groups.push({ title: heading, entries: [] });
    const link = /^[|-].*?\[([^\]]+)\]\(([^)#]+)(?:#[^)]*)?\)/.exec(line);
    const page = link?.[2] === undefined ? undefined : linkedPage(root, first, link[2]);
    if (link?.[1] !== undefined && page !== undefined)
      groups.at(-1)?.entries.push({ title: link[1].replaceAll("`", ""), page });
  }
  return groups.filter(({ entries }) => entries.length > 0);
}
