import { API_VERSION } from "@sallyport/resources";
import fc from "fast-check";
import { expect, it } from "vitest";
import { stringify } from "yaml";
import { documentsOf } from "../documents.ts";
import { readManifests } from "../manifests.ts";
import { ExportedNames, nameLike } from "./exported-names.ts";

it.each([
  ["web", "web"],
  ["My Web", "my-web"],
  ["Straße 5", "stra-e-5"],
  ["--a..b.-c--", "a.b.c"],
  ["東京", "unnamed"],
  ["\u001b[2J", "2j"],
])("%j is called %s", (name, expected) => {
  expect(nameLike(name)).toBe(expected);
});

it("gives each a name that a resource may have, and no name twice", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ minLength: 1, maxLength: 300, unit: "grapheme" }), { maxLength: 20 }),
      async (texts) => {
        const names = new ExportedNames();
        const given = texts.map((name, at) => names.add([{ id: String(at), name }], name).name);
        expect(new Set(given).size).toBe(given.length);
        const documents = given.map((name) => ({
          apiVersion: API_VERSION,
          kind: "OverlayService",
          metadata: { name },
          spec: {},
        }));
        const read = await documentsOf(
          documents.map((each) => stringify(each, { compat: "yaml-1.1" })).join("---\n"),
          "f",
        );
        expect([...read.problems, ...readManifests(read.documents).problems]).toEqual([]);
      },
    ),
    { numRuns: 50 },
  );
});
