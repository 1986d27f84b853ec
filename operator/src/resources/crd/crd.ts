import { stringify } from "yaml";
import { ANNOTATIONS, CATEGORY, SCHEMA_VERSION } from "../group.ts";
import type { KindDefinition, PrinterColumn } from "../kind-definition.ts";
import { type StructuralNode, structuralSchema } from "./structural.ts";

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

const HEADER = "# Generated from operator/src/kinds by `npm run generate`; do not edit.\n";

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
