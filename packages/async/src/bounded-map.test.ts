import { expect, test } from "vitest";
import { BoundedMap } from "./bounded-map.ts";

test("beyond the bound the entry that was set longest ago goes, and is reported", () => {
  const evicted: [string, number][] = [];
  const map = new BoundedMap<string, number>(2, (key, value) => evicted.push([key, value]));
  map.set("a", 1).set("b", 2).set("a", 3);
  expect([...map]).toEqual([
    ["b", 2],
    ["a", 3],
  ]);
  map.set("c", 4);
  expect([map.size, map.has("b"), evicted]).toEqual([2, false, [["b", 2]]]);
  map.delete("a");
  map.set("d", 5);
  expect(evicted).toHaveLength(1);
});

test("a touched key is the newest, a read one is not", () => {
  const map = new BoundedMap<string, number>(2);
  map.set("a", 1).set("b", 2);
  expect([map.get("a"), map.touch("a"), map.touch("x")]).toEqual([1, 1, undefined]);
  map.get("b");
  map.set("c", 3);
  expect([...map.keys()]).toEqual(["a", "c"]);
});
