import { expect, it } from "vitest";
import { packageOf } from "./imports.ts";

it("a package is named by the first parts of a specifier", () => {
  expect(["ws", "ws/lib/a.js", "@a/b", "@a/b/c"].map(packageOf)).toEqual(["ws", "ws", "@a/b", "@a/b"]);
});
