import { expect, test } from "vitest";
import {
  idsOf,
  missingText,
  type Reference,
  type Referenced,
  resolveReferences,
  scopedAttributes,
  scopedSelectors,
} from "./references.ts";

const resource = (status: Referenced["status"], more: { network?: string; deleting?: true } = {}): Referenced => ({
  metadata: more.deleting === undefined ? {} : { deletionTimestamp: "2026-01-01T00:00:00Z" },
  spec: { networkRef: { name: more.network ?? "main" } },
  status,
});

test.each([
  ["an id", resource({ id: "i1" }), { ids: ["i1"], missing: [] }],
  ["the ids of all routers", resource({ routers: [{ id: "r0" }, { id: "r1" }] }), { ids: ["r0", "r1"], missing: [] }],
  ["the routers that have one", resource({ routers: [{ id: "r0" }, {}] }), { ids: ["r0"], missing: [] }],
  ["none of no routers", resource({ routers: [] }), { ids: [], missing: [] }],
  ["nothing of routers without", resource({ routers: [{}] }), { ids: [], missing: ["NotReady"] }],
  ["nothing without a resource", undefined, { ids: [], missing: ["NotFound"] }],
  ["nothing without an id", resource({}), { ids: [], missing: ["NotReady"] }],
  ["nothing of another network", resource({ id: "i1" }, { network: "other" }), { ids: [], missing: ["OtherNetwork"] }],
  ["nothing of what is deleted", resource({ id: "i1" }, { deleting: true }), { ids: [], missing: ["Deleting"] }],
] as const)("a reference comes to %s", (_what, found, expected) => {
  const reference: Reference = { kind: "Identity", name: "bot" };
  const { ids, missing } = idsOf(
    [reference],
    resolveReferences([reference], "main", () => found),
  );
  expect({ ids, missing: missing.map(({ problem }) => problem) }).toEqual(expected);
});

test("says what is missing and why", () => {
  const references: Reference[] = [
    { kind: "Identity", name: "bot" },
    { kind: "EdgeRouter", name: "eu" },
  ];
  const find = ({ kind }: Reference) => (kind === "EdgeRouter" ? resource({ routers: [{}] }) : undefined);
  const { missing } = idsOf(references, resolveReferences(references, "main", find));
  expect(missingText(missing)).toBe("Identity bot does not exist; EdgeRouter eu has no id in the network yet");
});

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
