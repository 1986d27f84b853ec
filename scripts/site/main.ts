/**
 * Builds the documentation as a site.
 *
 *     npm run docs:build         writes dist/site
 *     npm run docs:dev -- 8000   serves it on this port; every request renders the page from its source
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join, normalize } from "node:path";
import { htmlPath, type RenderedPage, renderPage } from "./page.ts";
import { FIRST_PAGE, navigation, reachablePages } from "./pages.ts";

const root = join(import.meta.dirname, "../..");
const DEFAULT_PORT = 8000;

/** The way from the site's root to its first page. */
const ENTRANCE = `<!doctype html><meta http-equiv="refresh" content="0; url=${htmlPath(FIRST_PAGE)}">\n`;

const headingsScript = (pages: readonly RenderedPage[]) =>
  `globalThis.HEADINGS = ${JSON.stringify(pages.flatMap(({ headings }) => headings))};\n`;

function renderAll(): ReadonlyMap<string, RenderedPage> {
  const pages = reachablePages(root);
  const groups = navigation(root);
  return new Map(pages.map((page) => [page, renderPage(root, page, pages, groups)]));
}

function build(): void {
  const site = join(root, "dist/site");
  const write = (path: string, text: string) => {
    mkdirSync(join(site, dirname(path)), { recursive: true });
    writeFileSync(join(site, path), text);
  };
  rmSync(site, { recursive: true, force: true });
  const rendered = renderAll();
  for (const [page, { html, pictures }] of rendered) {
    write(htmlPath(page), html);
    for (const picture of pictures) cpSync(join(root, picture), join(site, picture));
  }
  write("index.html", ENTRANCE);
  write("headings.js", headingsScript([...rendered.values()]));
  console.log(`${rendered.size} pages: ${join(site, "index.html")}`);
}

function serve(port: number): void {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url ?? "/", "http://localhost").pathname)).slice(1);
    const send = (status: number, type: string, body: string | Buffer) =>
      response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(body);
    if (path === "") return send(200, "text/html", ENTRANCE);
    const rendered = renderAll();
    if (path === "headings.js") return send(200, "text/javascript", headingsScript([...rendered.values()]));
    const page = rendered.get(path.replace(/\.html$/, ".md"));
    if (page !== undefined) return send(200, "text/html; charset=utf-8", page.html);
    const isPicture = [...rendered.values()].some(({ pictures }) => pictures.includes(path));
    if (isPicture) return send(200, "image/svg+xml", readFileSync(join(root, path)));
    return send(404, "text/plain", `There is no page ${path}. The first page is /${htmlPath(FIRST_PAGE)}.\n`);
  });
  server.listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/ (Ctrl-C ends it)`));
}

const [command, port] = process.argv.slice(2);
if (command === "build") build();
else if (command === "dev") serve(Number(port ?? DEFAULT_PORT));
else {
  console.error("usage: node scripts/site/main.ts build | dev [PORT]");
  process.exitCode = 1;
}
