import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import type { z } from "zod";
import { problemsOfDefault } from "../admission/admit.ts";
import { crdFiles, crdName, type customResourceDefinition, type StructuralNode } from "../crd/crd.ts";
import { resourceReference } from "../crd/reference-page.ts";
import type { CelRule } from "../fields/cel.ts";
import { CATEGORY, KINDS, SCHEMA_VERSION } from "../group.ts";
import { nodesOf } from "../testing/schema-nodes.ts";
import { DEFINITIONS } from "./definitions.ts";

const root = join(import.meta.dirname, "../../../..");
type Definition = ReturnType<typeof customResourceDefinition>;

/** What is committed, as a cluster gets it. */
const committed = new Map(
  DEFINITIONS.map((kind) => {
    const text = readFileSync(join(root, "crds", `${kind.plural}.yaml`), "utf8");
    return [kind.kind, parse(text) as Definition] as const;
  }),
);
const schemaOf = (crd: Definition) => crd.spec.versions[0]?.schema.openAPIV3Schema as StructuralNode;
const nodes = [...committed].flatMap(([kind, crd]) =>
  [...nodesOf(schemaOf(crd))].map(([at, node]) => ({ name: `${kind} ${at}`, at, node })),
);

/** Nodes of free content, which the network or the cluster checks: pods, files of programs, configs, data of applications. */
const FREE =
  /^spec\.(data|appData|config\.overrides|managed\.config\.overrides|(managed\.)?template\.spec\.(affinity|dnsConfig|securityContext|topologySpreadConstraints\[\]|env\[\]\.valueFrom|(volumes|volumeMounts|containers|initContainers)\[\]))$/;

test("the committed files are what the schemas say", () => {
  const files = crdFiles(DEFINITIONS);
  expect(readdirSync(join(root, "crds")).sort()).toEqual([...files.keys()].sort());
  for (const [name, text] of files) expect(readFileSync(join(root, "crds", name), "utf8")).toBe(text);
  expect(readFileSync(join(root, "docs/operator/resources.md"), "utf8")).toBe(resourceReference(DEFINITIONS));
});

test("every kind that the operator knows is defined", () => {
  expect(DEFINITIONS).toMatchObject(KINDS);
});

test("unknown fields are kept nowhere but on the free-form nodes", () => {
  const free = nodes.filter(({ node }) => node["x-kubernetes-preserve-unknown-fields"] === true);
  expect(free.map(({ name, at }) => ({ name, isFree: FREE.test(at) })).filter(({ isFree }) => !isFree)).toEqual([]);
  expect(free.length).toBeGreaterThan(10);
});

test("every node but apiVersion, kind and metadata has a type, a description and bounds", () => {
  const bounded = (node: StructuralNode): boolean => {
    if (node["x-kubernetes-int-or-string"] === true) return node.maxLength !== undefined;
    switch (node.type) {
      case "string":
        return node.enum !== undefined || node.maxLength !== undefined || node.format === "date-time";
      case "array":
        return node.maxItems !== undefined && node.items !== undefined;
      case "integer":
        return node.minimum !== undefined && node.maximum !== undefined;
      case "object":
        return node.properties !== undefined || node.maxProperties !== undefined;
      default:
        return node.type === "boolean" || node.type === "number";
    }
  };
  const own = nodes.filter(({ at }) => !["apiVersion", "kind", "metadata"].includes(at));
  expect(own.filter(({ node }) => !bounded(node)).map(({ name }) => name)).toEqual([]);
  const undescribed = own.filter(({ node }) => !/^\S.*[.]$/s.test(node.description ?? ""));
  expect(undescribed.map(({ name, node }) => [name, node.description])).toEqual([]);
});

test("lists say how they are merged, and lists by key have the key in every entry", () => {
  for (const { name, node } of nodes.filter(({ node }) => node.type === "array")) {
    const type = node["x-kubernetes-list-type"];
    expect(["set", "map", "atomic"], name).toContain(type);
    if (type === "set") expect(node.items?.type, name).toBe("string");
    if (type !== "map") continue;
    expect(node.items?.required ?? [], name).toEqual(
      expect.arrayContaining([...(node["x-kubernetes-list-map-keys"] ?? [])]),
    );
  }
});

test("no default stands within the entry of a list or the value of a map: GitOps tools would see a difference forever", () => {
  const within = nodes.filter(({ at, node }) => /\[\]|\.\*/.test(at) && node.default !== undefined);
  expect(within.map(({ name }) => name)).toEqual([]);
});

test("every default is allowed by the rules as it stands, before defaults within it are filled in", () => {
  const refused = nodes.map(({ name, node }) => ({ name, problems: problemsOfDefault(node) }));
  expect(refused.filter(({ problems }) => problems.length > 0)).toEqual([]);
  expect(problemsOfDefault({ type: "string", default: "a", enum: ["b"] })).toHaveLength(1);
});

test("maps and structs don't mix, and unions are there only for amounts", () => {
  for (const { name, node } of nodes) {
    expect(node.properties !== undefined && node.additionalProperties !== undefined, name).toBe(false);
    expect(node.anyOf !== undefined, name).toBe(node["x-kubernetes-int-or-string"] === true);
  }
});

test("patterns mean the same in JavaScript and in RE2", () => {
  for (const { name, node } of nodes) expect(node.pattern ?? "", name).not.toMatch(/\(\?[=!<]|\\[1-9dwbu]/);
});

test("messages of rules differ on each node, and transition rules stand where the API server can find the old value", () => {
  for (const { name, at, node } of nodes) {
    const rules = node["x-kubernetes-validations"] ?? [];
    expect(new Set(rules.map(({ message }) => message)).size, name).toBe(rules.length);
    if (/\[\]/.test(at))
      expect(
        rules.filter(({ rule }) => rule.includes("oldSelf")),
        name,
      ).toEqual([]);
  }
});

test.each(DEFINITIONS)("every rule of the schema of $kind is in its file", (kind) => {
  const crd = committed.get(kind.kind);
  const inFile = [...nodesOf(schemaOf(crd as Definition)).values()].flatMap(
    (node) => node["x-kubernetes-validations"] ?? [],
  );
  const inSchema = [...kind.rules, ...rulesOf(kind.spec), ...rulesOf(kind.status)];
  const texts = (rules: readonly CelRule[]) => rules.map(({ rule, message }) => `${rule} | ${message}`).sort();
  expect(texts(inFile)).toEqual(texts(inSchema));
  expect(inFile.length).toBeGreaterThan(0);
});

test("names, category, columns and subresources are as kubectl needs them", () => {
  const shortNames = DEFINITIONS.flatMap((kind) => kind.shortNames);
  expect(new Set(shortNames).size).toBe(DEFINITIONS.length);
  for (const kind of DEFINITIONS) {
    const crd = committed.get(kind.kind) as Definition;
    const [version] = crd.spec.versions;
    expect(crd.metadata.name).toBe(crdName(kind));
    expect(crd.metadata.annotations).toEqual({ "sallyport.dev/schema-version": String(SCHEMA_VERSION) });
    expect(crd.spec.names.categories).toEqual([CATEGORY]);
    expect(schemaOf(crd).properties?.status?.default).toEqual({ observedGeneration: -1 });
    const columns = version?.additionalPrinterColumns.map(({ name }) => name) ?? [];
    expect(columns.slice(0, 2)).toEqual(["Ready", "Reason"]);
    expect(columns.at(-1)).toBe("Age");
    const known = nodesOf(schemaOf(crd));
    for (const { jsonPath } of kind.columns)
      expect(known.has(jsonPath.slice(1).replaceAll(/\[0\]/g, "[]")), `${kind.kind} ${jsonPath}`).toBe(true);
  }
  expect(committed.get("EdgeRouter")?.spec.versions[0]?.subresources).toEqual({
    status: {},
    scale: {
      specReplicasPath: ".spec.replicas",
      statusReplicasPath: ".status.replicas",
      labelSelectorPath: ".status.selector",
    },
  });
});

interface ZodNode {
  readonly meta: () => { readonly "x-kubernetes-validations"?: readonly CelRule[] } | undefined;
  readonly _zod: {
    readonly def: {
      readonly shape?: Readonly<Record<string, ZodNode>>;
      readonly innerType?: ZodNode;
      readonly element?: ZodNode;
      readonly valueType?: ZodNode;
    };
  };
}

/** The rules of a zod schema, found without the generator. */
function rulesOf(schema: z.ZodType): readonly CelRule[] {
  const walk = (node: ZodNode): readonly CelRule[] => {
    const { shape, innerType, element, valueType } = node._zod.def;
    // A wrapper has the metadata of what it wraps.
    if (innerType !== undefined) return walk(innerType);
    const below = [...Object.values(shape ?? {}), element, valueType].filter((each) => each !== undefined);
    return [...(node.meta()?.["x-kubernetes-validations"] ?? []), ...below.flatMap(walk)];
  };
  return walk(schema as unknown as ZodNode);
}
