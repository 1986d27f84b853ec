import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PathFinder, type PathLink, type PathRouter } from "./path.ts";

const router = (id: string, cost = 0, noTraversal = false): PathRouter => ({ id, cost, noTraversal });
const link = (id: string, source: string, destination: string, cost: number): PathLink => ({
  id,
  source,
  destination,
  cost,
});

describe("path finding", () => {
  const square = [link("ab", "a", "b", 1), link("bd", "b", "d", 1), link("ac", "a", "c", 5), link("cd", "c", "d", 5)];

  test.each([
    ["one router", [router("a")], [], "a", "a", { routers: ["a"], links: [], cost: 0 }],
    [
      "one link: the start is not counted",
      [router("a", 100), router("b", 20)],
      [link("l", "a", "b", 8)],
      "a",
      "b",
      { routers: ["a", "b"], links: ["l"], cost: 28 },
    ],
    [
      "a link serves both directions, cheap routers cost the minimum",
      [router("a"), router("b")],
      [link("l", "b", "a", 8)],
      "a",
      "b",
      { routers: ["a", "b"], links: ["l"], cost: 18 },
    ],
    [
      "the cheapest of parallel links",
      [router("a"), router("b")],
      [link("l1", "a", "b", 8), link("l2", "b", "a", 3), link("l3", "a", "b", 4)],
      "a",
      "b",
      { routers: ["a", "b"], links: ["l2"], cost: 13 },
    ],
    [
      "the cheaper side of a square",
      ["a", "b", "c", "d"].map((id) => router(id)),
      square,
      "a",
      "d",
      { routers: ["a", "b", "d"], links: ["ab", "bd"], cost: 22 },
    ],
    [
      "a dear router is gone around",
      [router("a"), router("b", 40), router("c"), router("d")],
      square,
      "a",
      "d",
      { routers: ["a", "c", "d"], links: ["ac", "cd"], cost: 30 },
    ],
    [
      "a router without traversal is gone around",
      [router("a"), router("b", 0, true), router("c"), router("d")],
      square,
      "a",
      "d",
      { routers: ["a", "c", "d"], links: ["ac", "cd"], cost: 30 },
    ],
    [
      "a router without traversal may be first and last",
      [router("a", 0, true), router("b", 0, true)],
      [link("l", "a", "b", 1)],
      "a",
      "b",
      { routers: ["a", "b"], links: ["l"], cost: 11 },
    ],
    ["no link", [router("a"), router("b")], [], "a", "b", undefined],
    ["a link to a router that is away", [router("a")], [link("l", "a", "b", 1)], "a", "b", undefined],
    ["an unknown start", [router("a")], [], "x", "x", undefined],
  ] as const)("%s", (_name, routers, links, from, to, expected) => {
    const finder = new PathFinder(routers, links, 10);
    expect(finder.path(from, to)).toEqual(expected);
    expect(finder.cost(from, to)).toBe(expected?.cost);
  });

  test("no chain of two edges is cheaper than a found path", () => {
    const ids = ["a", "b", "c", "d", "e", "f"];
    const links = fc.array(
      fc.tuple(fc.constantFrom(...ids), fc.constantFrom(...ids), fc.integer({ min: 1, max: 50 })),
      {
        maxLength: 20,
      },
    );
    fc.assert(
      fc.property(links, fc.constantFrom(...ids), fc.constantFrom(...ids), (edges, from, to) => {
        const finder = new PathFinder(
          ids.map((id) => router(id, 5)),
          edges.map(([s, d, c], i) => link(`l${i}`, s, d, c)),
          10,
        );
        for (const [s, d, c] of edges) {
          if (s === d) continue;
          for (const [x, y] of [
            [s, d],
            [d, s],
          ] as const) {
            const near = finder.cost(from, x);
            if (near !== undefined) expect(finder.cost(from, y)).toBeLessThanOrEqual(near + c + 10);
          }
        }
        const path = finder.path(from, to);
        if (path !== undefined) expect(path.routers).toHaveLength(path.links.length + 1);
      }),
    );
  });
});
