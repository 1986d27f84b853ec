import { describe, expect, it } from "vitest";
import { type Artifact, billOfMaterials, type Component } from "./cyclonedx.ts";

const component = (name: string, more: Partial<Component> = {}): Component => ({
  type: "library",
  purl: `pkg:npm/${name}@1.0.0`,
  name,
  version: "1.0.0",
  ...more,
});
const ARTIFACTS: readonly Artifact[] = [
  { component: component("b"), parts: [component("z", { license: "MIT" }), component("y", { license: "MIT OR ISC" })] },
  {
    component: component("a"),
    parts: [component("z", { license: "MIT" }), component("x", { license: "see LICENSE, please" })],
  },
];
const made = (version = "1.0.0", artifacts = ARTIFACTS) =>
  billOfMaterials(version, "abc", 1_700_000_000, artifacts) as {
    serialNumber: string;
    metadata: { timestamp: string };
    components: { purl: string; "bom-ref": string; licenses?: object[] }[];
    dependencies: { ref: string; dependsOn: string[] }[];
  };

describe("the bill of materials", () => {
  it("names every part once, in one order, and who holds it", () => {
    const { components, dependencies, metadata } = made();
    expect(components.map(({ purl }) => purl)).toEqual(
      ["a", "b", "x", "y", "z"].map((each) => `pkg:npm/${each}@1.0.0`),
    );
    expect(dependencies).toEqual([
      { ref: "pkg:generic/sallyport@1.0.0", dependsOn: ["pkg:npm/a@1.0.0", "pkg:npm/b@1.0.0"] },
      { ref: "pkg:npm/a@1.0.0", dependsOn: ["pkg:npm/x@1.0.0", "pkg:npm/z@1.0.0"] },
      { ref: "pkg:npm/b@1.0.0", dependsOn: ["pkg:npm/y@1.0.0", "pkg:npm/z@1.0.0"] },
    ]);
    expect(metadata.timestamp).toBe("2023-11-14T22:13:20.000Z");
    for (const each of components) expect(each["bom-ref"]).toBe(each.purl);
  });

  it("tells licences as expressions where they are such", () => {
    expect(made().components.map(({ licenses }) => licenses)).toEqual([
      undefined,
      undefined,
      [{ license: { name: "see LICENSE, please" } }],
      [{ expression: "MIT OR ISC" }],
      [{ expression: "MIT" }],
    ]);
  });

  it("is the same for the same, and has another number for another version", () => {
    expect(made()).toEqual(made());
    expect(made().serialNumber).toMatch(
      /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    );
    expect(made("1.0.1").serialNumber).not.toBe(made().serialNumber);
  });
});
