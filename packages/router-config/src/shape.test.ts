import { expect, it } from "vitest";
import { routerConfigSchema } from "./schema.ts";
import { type ConfigNode, sectionShape } from "./shape.ts";

it("a section tells kinds, bounds and meanings of its keys; keys that mean nothing are left out", () => {
  const { keys } = sectionShape("forwarder");
  expect(keys.xgressDialWorkerCount).toEqual({
    kind: "value",
    meaning: "Dials to services at a time.",
    value: { kind: "integer", min: 1, max: 10_000 },
  });
  expect(keys.unresponsiveLinkTimeout).toMatchObject({ value: { kind: "duration", min: "5s" } });
  expect(Object.keys(routerConfigSchema.in.shape.forwarder.def.innerType.shape)).toContain("latencyProbeInterval");
  expect(keys).not.toHaveProperty("latencyProbeInterval");
});

it("sections within sections and lists are told, too", () => {
  const checks = sectionShape("healthChecks").keys.linkCheck;
  expect(checks).toMatchObject({
    kind: "section",
    keys: { minLinks: { value: { kind: "integer", min: 0, max: undefined } } },
  });
  expect(sectionShape("csr").keys.sans).toMatchObject({
    kind: "section",
    keys: { dns: { kind: "value", value: { kind: "texts" } }, ip: { kind: "list", element: { kind: "text" } } },
  });
});

it.each(["forwarder", "metrics", "healthChecks", "csr"] as const)("every key of %s has a meaning", (name) => {
  const without = (node: ConfigNode, key: string): string[] =>
    node.kind === "section"
      ? Object.entries(node.keys).flatMap(([child, below]) => without(below, `${key}.${child}`))
      : node.meaning === ""
        ? [key]
        : [];
  expect(without(sectionShape(name), name)).toEqual([]);
});
