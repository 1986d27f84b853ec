import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { OPERATOR_DEFAULTS } from "../../operator/src/program/settings.ts";
import { valuesTable, withTable } from "./chart-readme.ts";
import { schemaProblems } from "./chart-schema.ts";
import { ChartError, valuesOf } from "./chart-values.ts";
import { operatorRights } from "./operator-rights.ts";
import { crdTemplate, rulesOf } from "./operator-templates.ts";

const VALUES = `# What is said of the file.

# How many.
replicas: 2

image:
  # Where it is,
  # in two lines.
  repository: a/b
  # Its tag | label.
  tag: ""

# All of it.
resources:
  limits: {memory: 1Gi}
`;

const read = (file: string) => readFileSync(join(import.meta.dirname, "../..", file), "utf8");

test("the charts and manifests repeat the operator's own defaults", () => {
  const { resync, logLevel, waitTimeout, healthPort } = OPERATOR_DEFAULTS;
  const defaultOf = (chart: string, path: string) =>
    valuesOf(chart, read(`helm/${chart}/values.yaml`)).find((value) => value.path === path)?.standard;
  expect([defaultOf("sallyport", "resync"), defaultOf("sallyport", "logLevel")]).toEqual([resync, logLevel]);
  expect(defaultOf("sallyport-network", "test.timeout")).toBe(waitTimeout);
  const pod = read("helm/sallyport/templates/_pod.tpl");
  expect(pod).toContain(`if ne .Values.resync "${resync}"`);
  expect(pod).toContain(`if ne .Values.logLevel "${logLevel}"`);
  for (const file of ["helm/sallyport/templates/deployment.yaml", "operator/deploy/base/deployment.yaml"])
    expect(read(file)).toContain(`containerPort: ${healthPort}\n`);
});

describe("values of a chart", () => {
  test("have a default and what the comment says, in the order of the file", () => {
    expect(valuesOf("c", VALUES)).toEqual([
      { path: "replicas", meaning: "How many.", standard: 2 },
      { path: "image.repository", meaning: "Where it is, in two lines.", standard: "a/b" },
      { path: "image.tag", meaning: "Its tag | label.", standard: "" },
      { path: "resources", meaning: "All of it.", standard: { limits: { memory: "1Gi" } } },
    ]);
  });

  test("all have a comment", () => {
    expect(() => valuesOf("c", `${VALUES}\nsilent: 1\n`)).toThrow(
      new ChartError("c", ["values.yaml: silent has no comment above it that says what it means"]),
    );
  });

  test("are a table in the page, and the rest of the page stays", () => {
    const table = valuesTable(valuesOf("c", VALUES));
    expect(table.split("\n")[4]).toBe('| `image.tag` | `""` | Its tag \\| label. |');
    const page = withTable("# c\n\nProse.\n", table);
    expect(page).toMatch(/^# c\n\nProse\.\n\n## Values\n\n<!-- .* -->\n\| Value .*<!-- .* -->\n$/s);
    expect(withTable(`${page}\nMore.\n`, table)).toBe(`${page}\nMore.\n`);
  });
});

describe("the schema of values", () => {
  const values = valuesOf("c", VALUES);
  const image = { properties: { repository: {}, tag: {} }, additionalProperties: false };
  const schema = {
    additionalProperties: false,
    properties: { global: {}, replicas: {}, image: { $ref: "#/$defs/image" }, resources: {} },
    $defs: { image },
  };

  test("knows the same values", () => {
    expect(schemaProblems(schema, values)).toEqual([]);
  });

  // biome-ignore format: a table
  test.each<[string, object, string[]]>([
    ["a value is not in it", { properties: { ...schema.properties, replicas: undefined } }, ["values.schema.json: replicas of values.yaml is missing"]],
    ["a property has no default", { properties: { ...schema.properties, replicos: {} } }, ["values.yaml: replicos of values.schema.json has no default"]],
    ["one further down has none", { $defs: { image: { ...image, properties: { ...image.properties, digest: {} } } } }, ["values.yaml: image.digest of values.schema.json has no default"]],
    ["it lets everything in", { additionalProperties: undefined }, ["values.schema.json: the root lets anything in: expected additionalProperties: false"]],
  ])("does not: %s", (_, change, problems) => {
    expect(schemaProblems({ ...schema, ...change }, values)).toEqual(problems);
  });
});

const ROLES = `# A file.
kind: Role
metadata:
  name: first
rules:
  # Read.
  - apiGroups: [""]
    resources: [pods, pods/log]
    verbs: [get]
  - apiGroups: [""]
    resources:
      - serviceaccounts/token
    resourceNames:
      - sallyport-operator
    verbs: [create]
---
kind: Role
metadata:
  name: second
rules:
  - apiGroups: [x]
    resources: [y]
    verbs: [z]
subjects: []
`;

describe("templates of the operator's chart", () => {
  test("have the rules of the role that is asked for, and its service account by its name in the release", () => {
    expect(rulesOf(ROLES, "first").split("\n")).toEqual([
      "# Read.",
      '- apiGroups: [""]',
      "  resources: [pods, pods/log]",
      "  verbs: [get]",
      '- apiGroups: [""]',
      "  resources:",
      "    - serviceaccounts/token",
      "  resourceNames:",
      '    - {{ include "sallyport.serviceAccountName" . }}',
      "  verbs: [create]",
    ]);
    expect(rulesOf(ROLES, "second")).toBe("- apiGroups: [x]\n  resources: [y]\n  verbs: [z]");
    expect(() => rulesOf(ROLES, "third")).toThrow("no rules of third");
  });

  test("have CRDs whose braces are text", () => {
    const crd = "metadata:\n  annotations:\n    a: b\n  labels:\n    c: d\nspec: such as {{x}}\n";
    expect(crdTemplate(crd)).toBe(`{{- if .Values.crds.enabled }}
metadata:
  annotations:
    {{- if .Values.crds.keep }}
    helm.sh/resource-policy: keep
    {{- end }}
    a: b
  labels:
    {{- include "sallyport.releaseLabels" . | nindent 4 }}
    c: d
spec: such as {{ "{{" }}x}}
{{- end }}
`);
    expect(() => crdTemplate("metadata: {}\n")).toThrow("a CRD without annotations");
  });

  test("are checked by rights without those on objects of one name", () => {
    const [role = ""] = ROLES.split("---");
    const text = operatorRights(role, "rules: []");
    expect(text).toContain('"resource": "pods/log"');
    expect(text).not.toContain("serviceaccounts/token");
  });
});
