/** One page of the site: Markdown to HTML, with links that fit the site. */
import { readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { Marked } from "marked";
import { anchorOf } from "../markdown.ts";
import { FIRST_PAGE, linkedPage, type NavigationGroup } from "./pages.ts";

const STYLE = readFileSync(join(import.meta.dirname, "style.css"), "utf8");
const SEARCH = readFileSync(join(import.meta.dirname, "search.js"), "utf8");

export interface SearchEntry {
  readonly page: string;
  readonly anchor: string;
  readonly title: string;
}

export interface RenderedPage {
  readonly html: string;
  readonly headings: readonly SearchEntry[];
  /** Repository paths of the pictures on the page. */
  readonly pictures: readonly string[];
}

/** Where a page lies on the site: its repository path with `.html` at the end. */
export const htmlPath = (page: string): string => page.replace(/\.md$/, ".html");

/**
 * @param page repository path
 * @param pages those of the site; links to other files of the repository become plain text
 */
export function renderPage(
  root: string,
  page: string,
  pages: readonly string[],
  groups: readonly NavigationGroup[],
): RenderedPage {
  const headings: SearchEntry[] = [];
  const pictures: string[] = [];
  const href = (target: string) => relative(dirname(page), htmlPath(target));
  const marked = new Marked({
    renderer: {
      heading({ depth, tokens }) {
        const text = this.parser.parseInline(tokens);
        const title = plainText(text);
        const anchor = anchorOf(title);
        headings.push({ page: htmlPath(page), anchor, title });
        return `<h${depth} id="${anchor}"><a href="#${anchor}">${text}</a></h${depth}>\n`;
      },
      link({ href: to, tokens }) {
        const text = this.parser.parseInline(tokens);
        if (/^[a-z]+:/.test(to)) return `<a href="${htmlText(to)}">${text}</a>`;
        const [path = "", anchor] = to.split("#");
        const target = linkedPage(root, page, path);
        if (target === undefined || !pages.includes(target)) return text;
        return `<a href="${href(target)}${anchor === undefined ? "" : `#${anchor}`}">${text}</a>`;
      },
      image({ href: from, text }) {
        pictures.push(join(dirname(page), from));
        return `<img src="${htmlText(from)}" alt="${htmlText(text)}">`;
      },
    },
  });
  const body = marked.parse(readFileSync(join(root, page), "utf8"), { async: false });
  const sidebar = groups.map(
    ({ title, entries }) =>
      `<h2>${htmlText(title)}</h2><ul>${entries
        .map(
          (entry) =>
            `<li><a href="${href(entry.page)}"${entry.page === page ? ' aria-current="page"' : ""}>${htmlText(entry.title)}</a></li>`,
        )
        .join("")}</ul>`,
  );
  const top = relative(dirname(page), "") || ".";
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${htmlText(headings[0]?.title ?? "Sallyport")} – Sallyport</title>
<style>${STYLE}</style>
</head>
<body data-top="${top}">
<nav>
<a class="home" href="${href(groups.length > 0 ? FIRST_PAGE : page)}">Sallyport</a>
<input type="search" placeholder="Search headings" aria-label="Search headings">
<ul class="results"></ul>
${sidebar.join("\n")}
</nav>
<main>
${body}
</main>
<script src="${top}/headings.js"></script>
<script>${SEARCH}</script>
</body>
</html>
`;
  return { html, headings, pictures };
}

const plainText = (html: string): string =>
  html
    .replace(/<[^>]+>/g, "")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&amp;", "&");

const htmlText = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
