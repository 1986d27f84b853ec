import { stringify } from "yaml";
import { z } from "zod";
import type { CelRule } from "../fields/cel.ts";
import { ANNOTATIONS, CATEGORY, SCHEMA_VERSION } from "../group.ts";
import type { KindDefinition, PrinterColumn } from "../kind-definition.ts";

const ready = (field: "status" | "reason" | "message") => `.status.conditions[?(@.type=="Ready")].${field}`;

const FIRST: readonly PrinterColumn[] = [
  { name: "Ready", type: "string", description: "Whether the resource is as declared.", jsonPath: ready("status") },
  { name: "Reason", type: "string", description: "Reason of the condition Ready.", jsonPath: ready("reason") },
];
const LAST: readonly PrinterColumn[] = [
  {
    name: "Message",
    type: "string",
    description: "Message of the condition Ready.",
    jsonPath: ready("message"),
    priority: 1,
  },
  { name: "Age", type: "date", description: "Age of the resource.", jsonPath: ".metadata.creationTimestamp" },
];

/** The columns of `kubectl get`, in their order. */
export const columnsOf = (kind: KindDefinition): readonly PrinterColumn[] => [...FIRST, ...kind.columns, ...LAST];

/** The schema of a whole object of the kind. */
export function objectSchema(kind: KindDefinition): StructuralNode {
  return {
    description: kind.description,
    type: "object",
    ...(kind.rules.length === 0 ? {} : { "x-kubernetes-validations": kind.rules }),
    required: ["spec"],
    properties: {
      apiVersion: { description: "Group and version of the kind.", type: "string" },
      kind: { description: "Name of the kind.", type: "string" },
      metadata: { type: "object" },
      spec: structuralSchema(kind.spec),
      // Without it tools take a resource that was not reconciled yet for a ready one.
      status: withDefault(structuralSchema(kind.status), { observedGeneration: -1 }),
    },
  };
}

function withDefault(node: StructuralNode, standard: unknown): StructuralNode {
  const { description, type, ...rest } = node;
  return {
    ...(description === undefined ? {} : { description }),
    ...(type === undefined ? {} : { type }),
    default: standard,
    ...rest,
  };
}

export const crdName = (kind: KindDefinition) => `${kind.plural}.${kind.group}`;

/** The CustomResourceDefinition of a kind. */
export function customResourceDefinition(kind: KindDefinition) {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: {
      name: crdName(kind),
      annotations: { [ANNOTATIONS.schemaVersion]: String(SCHEMA_VERSION) },
      labels: { "app.kubernetes.io/part-of": "sallyport" },
    },
    spec: {
      group: kind.group,
      scope: "Namespaced",
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: kind.singular,
        shortNames: kind.shortNames,
        categories: [CATEGORY],
      },
      versions: [
        {
          name: kind.version,
          served: true,
          storage: true,
          additionalPrinterColumns: columnsOf(kind),
          subresources: { status: {}, ...(kind.scale === undefined ? {} : { scale: kind.scale }) },
          schema: { openAPIV3Schema: objectSchema(kind) },
        },
      ],
    },
  };
}

const HEADER = "# Generated from packages/resources/src/kinds by `npm run generate`; do not edit.\n";

/** File names and contents of `crds/`. They are too large for a client-side apply: `kubectl apply --server-side -k crds`. */
export function crdFiles(kinds: readonly KindDefinition[]): Map<string, string> {
  const yaml = (value: unknown) => HEADER + stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
  const files = kinds.map((kind) => [`${kind.plural}.yaml`, yaml(customResourceDefinition(kind))] as const);
  const kustomization = {
    apiVersion: "kustomize.config.k8s.io/v1beta1",
    kind: "Kustomization",
    resources: files.map(([name]) => name).sort(),
  };
  return new Map([...files, ["kustomization.yaml", yaml(kustomization)]]);
}

/** A node of a structural schema: the part of OpenAPI v3 that a CRD may use, and that our kinds do. */
export interface StructuralNode {
  readonly description?: string;
  readonly type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  readonly format?: string;
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly anyOf?: readonly { readonly type: string }[];
  readonly "x-kubernetes-int-or-string"?: true;
  readonly "x-kubernetes-preserve-unknown-fields"?: true;
  readonly "x-kubernetes-list-type"?: "set" | "map" | "atomic";
  readonly "x-kubernetes-list-map-keys"?: readonly string[];
  readonly "x-kubernetes-validations"?: readonly CelRule[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, StructuralNode>>;
  readonly items?: StructuralNode;
  readonly additionalProperties?: StructuralNode;
}

/** Keys that are taken over as they stand, in the order in which they are written. */
const PLAIN = [
  "description",
  "type",
  "format",
  "enum",
  "default",
  "minLength",
  "maxLength",
  "pattern",
  "minimum",
  "maximum",
  "minItems",
  "maxItems",
  "maxProperties",
  "x-kubernetes-int-or-string",
  "x-kubernetes-preserve-unknown-fields",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-validations",
  "required",
] as const;
/** Keys that are changed or dropped on the way. */
const HANDLED = new Set(["properties", "items", "additionalProperties", "anyOf"]);

type Json = Readonly<Record<string, unknown>>;

/** A schema that can't be said in a CRD. */
class StructuralError extends Error {
  override readonly name = "StructuralError";
}

/**
 * The structural schema of what users write (defaults are optional there).
 *
 * @throws StructuralError when a construct of the zod schema has no place in a structural schema.
 */
function structuralSchema(schema: z.ZodType): StructuralNode {
  const json: unknown = z.toJSONSchema(schema, { target: "openapi-3.0", io: "input", reused: "inline" });
  return node(json as Json, "");
}

function node(json: Json, path: string): StructuralNode {
  const unknownKeys = Object.keys(json).filter((key) => !HANDLED.has(key) && !PLAIN.includes(key as never));
  if (unknownKeys.length > 0)
    throw new StructuralError(`${path}: a structural schema has no ${unknownKeys.join(", ")}; choose another type`);
  if (json["x-kubernetes-int-or-string"] === true) return intOrString(json);
  if (json.anyOf !== undefined)
    throw new StructuralError(`${path}: a structural schema has no unions; give each variant a field of its own`);
  return {
    ...plain(json),
    ...(json.properties === undefined ? {} : { properties: children(json.properties as Json, path) }),
    ...(json.items === undefined ? {} : { items: node(json.items as Json, `${path}[]`) }),
    ...values(json, path),
  };
}

function plain(json: Json): StructuralNode {
  const entries = PLAIN.filter((key) => json[key] !== undefined).map((key) => [
    key,
    key === "pattern" ? String(json[key]).replaceAll("\\/", "/") : json[key],
  ]);
  return Object.fromEntries(entries) as StructuralNode;
}

function children(properties: Json, path: string): Record<string, StructuralNode> {
  return Object.fromEntries(
    Object.entries(properties).map(([name, child]) => [
      name,
      node(child as Json, path === "" ? name : `${path}.${name}`),
    ]),
  );
}

/** `additionalProperties` only where a map has values of one kind: structs are closed by pruning, free nodes are open. */
function values(json: Json, path: string): Partial<StructuralNode> {
  const given = json.additionalProperties;
  if (typeof given !== "object" || given === null || json["x-kubernetes-preserve-unknown-fields"] === true) return {};
  return { additionalProperties: node(given as Json, `${path}.*`) };
}

/** The one union that there is. Its members may carry nothing but their types. */
function intOrString(json: Json): StructuralNode {
  const members = (json.anyOf ?? []) as readonly Json[];
  const pattern = members.find((member) => member.type === "string")?.pattern;
  return { ...plain({ ...json, pattern }), anyOf: [{ type: "integer" }, { type: "string" }] };
}
