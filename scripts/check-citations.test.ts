import { describe, expect, it } from "vitest";
import { citationsIn } from "./check-citations.ts";

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
});
