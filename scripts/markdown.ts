/** What checks and the site read in Markdown: headings, their anchors, and links; code is none of them. */

const LINK = /\]\(([^)\s#:]*)(?:#([^)\s]*))?\)/g;

const blank = (code: string): string => code.replace(/[^\n]/g, " ");

/** Markdown with its fenced code blanked; every line stays where it is. */
export const withoutFences = (markdown: string): string => markdown.replace(/^```[\s\S]*?^```/gm, blank);

/** Markdown with its code between backticks blanked. */
export const withoutInlineCode = (markdown: string): string => markdown.replace(/`[^`\n]*`/g, blank);

/** Markdown with its indented code blanked, and the deep parts of lists with it. */
export const withoutIndented = (markdown: string): string => markdown.replace(/^(?: {4}|\t).*$/gm, blank);

/** Headings of a page as plain text. */
export function headingsOf(markdown: string): string[] {
  const headings = withoutFences(markdown).matchAll(/^#{1,6} +(.+?) *$/gm);
  return [...headings].map(([, text = ""]) => text.replaceAll("`", ""));
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
  const links = withoutInlineCode(withoutFences(markdown)).matchAll(LINK);
  return [...links].map(([, path = "", anchor]) => ({ path, anchor }));
}
