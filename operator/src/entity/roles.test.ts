import { expect, test } from "vitest";
import { scopedAttributes, scopedSelectors } from "./roles.ts";

const GLOBAL = { roleScope: "Global", namespace: "edge" } as const;
const NAMESPACED = { roleScope: "Namespaced", namespace: "edge" } as const;

test("roles reach a network of global scope as they are written, as sorted sets", () => {
  expect(scopedAttributes(["web", "a", "web"], GLOBAL)).toEqual(["a", "web"]);
  expect(scopedAttributes(undefined, GLOBAL)).toEqual([]);
  expect(scopedSelectors(["#web", "#all"], GLOBAL)).toEqual(["#all", "#web"]);
});

test("in namespaced scope the namespace stands before them, and #all is all of the namespace", () => {
  expect(scopedAttributes(["web"], NAMESPACED)).toEqual(["edge.all", "edge.web"]);
  expect(scopedAttributes(undefined, NAMESPACED)).toEqual(["edge.all"]);
  expect(scopedSelectors(["#web", "#all"], NAMESPACED)).toEqual(["#edge.all", "#edge.web"]);
  expect(scopedSelectors(undefined, NAMESPACED)).toEqual([]);
});

test("no attribute of one namespace is that of another", () => {
  const [theirs] = scopedSelectors(["#b.web"], { roleScope: "Namespaced", namespace: "a" });
  expect(scopedAttributes(["web"], { roleScope: "Namespaced", namespace: "b" })).not.toContain(theirs?.slice(1));
});
