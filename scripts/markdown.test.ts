import { describe, expect, it } from "vitest";
import { anchorOf, headingsOf, linksIn } from "./markdown.ts";

describe("of a page", () => {
  it("headings are read, not comments of code", () => {
    expect(headingsOf("# The `file`\n\n```sh\n# not this\n```\n\n### Part two \n")).toEqual(["The file", "Part two"]);
  });

  it("anchors are made of headings", () => {
    expect(anchorOf("What is `x`, and why?")).toBe("what-is-x-and-why");
  });

  it("links to this repository are read, outside of code", () => {
    const page = "[a](b.md) [c](#d) [e](f.md#g)\n[web](https://example.org/x#y) `[no](h.md)`\n```\n[no](i.md)\n```\n";
    expect(linksIn(page)).toEqual([
      { path: "b.md", anchor: undefined },
      { path: "", anchor: "d" },
      { path: "f.md", anchor: "g" },
    ]);
  });
});
