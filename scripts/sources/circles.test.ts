import { expect, it } from "vitest";
import { importCircles } from "./circles.ts";

const circlesOf = (files: Readonly<Record<string, string>>) =>
  importCircles(Object.keys(files), (file) => files[file] ?? "");

it("the sources have no circle of imports, types included", () => {
  const files = {
    "a/one.ts": 'import { two } from "./two.ts";',
    "a/two.ts": 'export { three } from "../b/three.ts";',
    "b/three.ts": 'import type { One } from "../a/one.ts";',
    "b/four.ts": 'import { one } from "../a/one.ts";',
  };
  expect(circlesOf(files)).toEqual([["a/one.ts", "a/two.ts", "b/three.ts"]]);
  expect(circlesOf({ ...files, "b/three.ts": 'import { x } from "@sallyport/wire";' })).toEqual([]);
});
