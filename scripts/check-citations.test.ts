import { describe, expect, it } from "vitest";
import { anchorOf, citationsIn, headingsOf, linksIn } from "./check-citations.ts";

describe("citations", () => {
  it.each([
    ["// see docs/a.md.", [{ page: "docs/a.md" }]],
    ['/** A frame (docs/protocol/a.md, "Frame"). */', [{ page: "docs/protocol/a.md", section: "Frame" }]],
    ['// docs/a.md "One" and "Two"; "three"', ["One", "Two"].map((section) => ({ page: "docs/a.md", section }))],
    ['/**\n * as of docs/a.md, "The\n * end".\n */', [{ page: "docs/a.md", section: "The end" }]],
    ['  // docs/a.md\n  // "Part"', [{ page: "docs/a.md", section: "Part" }]],
    ["/** docs/a.md, docs/b.md */", [{ page: "docs/a.md" }, { page: "docs/b.md" }]],
  ])("are read from %j", (source, expected) => {
    expect(citationsIn(source)).toEqual(expected);
  });

  it("lead to headings, not to comments of code", () => {
    expect(headingsOf("# The `file`\n\n```sh\n# not this\n```\n\n### Part two \n")).toEqual(["The file", "Part two"]);
  });

  it("lead to anchors as they are made of headings", () => {
    expect(anchorOf("What is `x`, and why?")).toBe("what-is-x-and-why");
  });

  it("are links to this place only, outside of code", () => {
    const page = "[a](b.md) [c](#d) [e](f.md#g)\n[web](https://example.org/x#y) `[no](h.md)`\n```\n[no](i.md)\n```\n";
    expect(linksIn(page)).toEqual([
      { path: "b.md", anchor: undefined },
      { path: "", anchor: "d" },
      { path: "f.md", anchor: "g" },
    ]);
  });
});
