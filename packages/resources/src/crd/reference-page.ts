import { ANNOTATIONS, API_VERSION, CATEGORY, FINALIZER } from "../group.ts";
import type { KindDefinition } from "../kind-definition.ts";
import { columnsOf, objectSchema, type StructuralNode } from "./crd.ts";

const ANNOTATION_TEXTS: Readonly<Record<keyof typeof ANNOTATIONS, readonly [on: string, meaning: string]>> = {
  pause: [
    "every kind",
    '`"true"`: the operator changes nothing and sets the condition `ReconciliationPaused`. Deletion still works.',
  ],
  reconcile: [
    "every kind",
    "Any new value: the operator reconciles the resource now. `status.lastHandledReconcileAt` has the value afterwards.",
  ],
  restart: [
    "EdgeRouter, managed Network",
    "Any new value: the operator restarts its pods, one at a time. `status.lastHandledRestart` has the value afterwards.",
  ],
  reEnroll: [
    "EdgeRouter, Identity",
    "`<ordinal>:<anything>` on an EdgeRouter, any new value on an Identity: its credentials are revoked and it enrolls again. `status.lastHandledReEnroll` has the value afterwards.",
  ],
  forceOrphan: ["every kind, during deletion", '`"true"`: the entities stay in the network, and the deletion ends.'],
  configHash: ["pods", "Set by the operator: hash of the rendered file. A pod restarts only if it changes."],
  intent: ["objects of the operator", "Set by the operator: hash of the last applied object."],
  certificateNotAfter: ["Secrets", "Set by the operator: expiry of the certificate in the Secret."],
  schemaVersion: ["CRDs", "At start the operator reports CRDs that are too old."],
};

/** Every kind with its fields, bounds, defaults, rules and columns, as a Markdown page made from the schemas. */
export function resourceReference(kinds: readonly KindDefinition[]): string {
  const annotations = Object.entries(ANNOTATIONS).map(([id, name]) => {
    const [on, meaning] = ANNOTATION_TEXTS[id as keyof typeof ANNOTATIONS];
    return [`\`${name}\``, on, meaning];
  });
  const overview = kinds.map((kind) => [
    `[${kind.kind}](#${kind.kind.toLowerCase()})`,
    `\`${kind.plural}\``,
    kind.shortNames.map((name) => `\`${name}\``).join(", "),
    kind.description,
  ]);
  return `# Resources of the operator

Generated from \`packages/resources/src/kinds\` by \`npm run generate\`; do not edit. The CRDs in \`crds/\` are made from the same schemas, and
\`kubectl explain\` prints the same texts.

All kinds are namespaced, of \`${API_VERSION}\`, and in the category \`${CATEGORY}\`: \`kubectl get ${CATEGORY}\` lists them all. A resource refers to
others of its own namespace only. What has an effect outside of Kubernetes carries the finalizer \`${FINALIZER}\`.

${table(["Kind", "Plural", "Short", "What it is"], overview)}

## Annotations

${table(["Annotation", "On", "Meaning"], annotations)}

${kinds.map(page).join("\n\n")}
`;
}

function page(kind: KindDefinition): string {
  const schema = objectSchema(kind);
  const { spec, status } = schema.properties ?? {};
  const rules = rulesOf(schema, "");
  const columns = columnsOf(kind).map(({ name, description, jsonPath, priority }) => [
    name + (priority === undefined ? "" : " (wide)"),
    description,
    `\`${jsonPath}\``,
  ]);
  return [
    `## ${kind.kind}`,
    kind.description,
    table(["Field", "Value", "Default", "Meaning"], spec === undefined ? [] : fields(spec, "spec")),
    "### Rules".concat(` of ${kind.kind}`),
    table(["On", "What is refused otherwise", "Rule"], rules),
    `### Status of ${kind.kind}`,
    table(["Field", "Value", "Meaning"], status === undefined ? [] : fields(status, "status").map(withoutDefault)),
    `### Columns of ${kind.kind}`,
    table(["Column", "Meaning", "From"], columns),
  ].join("\n\n");
}

const withoutDefault = ([field = "", value = "", , meaning = ""]: readonly string[]) => [field, value, meaning];

/** One row for each field below the node. */
function fields(node: StructuralNode, path: string): string[][] {
  return Object.entries(node.properties ?? {}).flatMap(([name, child]) => {
    const isRequired = node.required?.includes(name) === true;
    return rows(child, `${path}.${name}`, isRequired ? "*required*" : standard(child));
  });
}

function rows(node: StructuralNode, path: string, standardText: string): string[][] {
  const own = [`\`${path}\``, valueText(node), standardText, node.description ?? ""];
  const inner = node.items ?? node.additionalProperties;
  if (inner?.properties !== undefined)
    return [own, ...fields(inner, `${path}${node.items === undefined ? ".*" : "[]"}`)];
  return [own, ...fields(node, path)];
}

const standard = (node: StructuralNode) => (node.default === undefined ? "" : `\`${JSON.stringify(node.default)}\``);

function valueText(node: StructuralNode): string {
  if (node.enum !== undefined) return node.enum.map((value) => `\`${value}\``).join(", ");
  if (node["x-kubernetes-int-or-string"] === true) return "integer or text";
  switch (node.type) {
    case "array":
      return `list of ${valueText(node.items ?? {})}, ${range(node.minItems, node.maxItems, "entries")}`;
    case "object":
      if (node.additionalProperties !== undefined)
        return `map to ${valueText(node.additionalProperties)}, ${range(undefined, node.maxProperties, "entries")}`;
      return node["x-kubernetes-preserve-unknown-fields"] === true ? "object of any fields" : "object";
    case "string":
      if (node.format !== undefined) return node.format;
      return `text, ${range(node.minLength, node.maxLength, "characters")}${node.pattern === undefined ? "" : `, \`${node.pattern}\``}`;
    case "integer":
    case "number":
      return `${node.type}, ${range(node.minimum, node.maximum === Number.MAX_SAFE_INTEGER ? undefined : node.maximum, "")}`.trim();
    default:
      return node.type ?? "";
  }
}

function range(min: number | undefined, max: number | undefined, unit: string): string {
  if (max === undefined) return `at least ${min ?? 0} ${unit}`.trim();
  return (min === undefined ? `at most ${max} ${unit}` : `${min} to ${max} ${unit}`).trim();
}

function rulesOf(node: StructuralNode, path: string): string[][] {
  const own = (node["x-kubernetes-validations"] ?? []).map(({ rule, message }) => [
    path === "" ? "the object" : `\`${path}\``,
    message,
    `\`${rule}\``,
  ]);
  const inner = Object.entries(node.properties ?? {}).flatMap(([name, child]) =>
    rulesOf(child, path === "" ? name : `${path}.${name}`),
  );
  const items = node.items === undefined ? [] : rulesOf(node.items, `${path}[]`);
  const map = node.additionalProperties === undefined ? [] : rulesOf(node.additionalProperties, `${path}.*`);
  return [...own, ...inner, ...items, ...map];
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

/** What stands between backticks is shown as it is, but for what would end the cell. */
const cell = (text: string) =>
  text
    .split("`")
    .map((part, i) => (i % 2 === 0 ? part.replaceAll("<", "\\<") : part).replaceAll("|", "\\|"))
    .join("`");
