import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { renderPage } from "./page.ts";
import { navigation, reachablePages } from "./pages.ts";

// Written so that it is no citation of a page of this repository.
const page = (name: string) => `docs/${name}.md`;

describe("the site", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "sallyport-site-"));
    write("docs/index.md", "# Pages\n\n## Start\n\n- [One `x`](one.md): first\n- [Chart](../helm)\n");
    write(
      page("one"),
      "# One\n\n## A & b\n\n[two](deep/two.md#a-part) [code](../a.ts)\n\n![a picture](pictures/p.svg)\n",
    );
    write(page("deep/two"), "# Two\n\n## A part\n\n[back](../one.md#a--b)\n");
    write(page("lost"), "# Lost\n");
    write("helm/README.md", "# Chart\n");
    write("a.ts", "");
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  function write(path: string, text: string): void {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }

  it("has every page that links lead to, also those of folders, and no other", () => {
    expect(reachablePages(root)).toEqual(["docs/index.md", page("one"), "helm/README.md", page("deep/two")]);
  });

  it("takes its navigation from the first page", () => {
    expect(navigation(root)).toEqual([
      {
        title: "Start",
        entries: [
          { title: "One x", page: page("one") },
          { title: "Chart", page: "helm/README.md" },
        ],
      },
    ]);
  });

  it("links between pages as they lie on the site, and shows other files as text", () => {
    const { html, pictures, headings } = renderPage(root, page("one"), reachablePages(root), navigation(root));
    expect(html).toContain('<a href="deep/two.html#a-part">two</a> code');
    expect(html).toContain('<h2 id="a--b"><a href="#a--b">A &amp; b</a></h2>');
    expect(html).toContain('<a href="../helm/README.html">Chart</a>');
    expect(html).toContain('<a href="one.html" aria-current="page">One x</a>');
    expect(html).toContain('<script src="../headings.js">');
    expect(pictures).toEqual(["docs/pictures/p.svg"]);
    expect(headings.map(({ anchor }) => anchor)).toEqual(["one", "a--b"]);
  });
});
