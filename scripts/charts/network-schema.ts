/**
 * The schema of the values of helm/sallyport-network, made from the same definitions as the CRDs: `helm` refuses what the API server would refuse, with the
 * path of the value, before anything is installed. JSON Schema draft 7, which every Helm of version 3 understands.
 */

import { objectSchema, type StructuralNode } from "../../packages/resources/src/crd/crd.ts";
import { atMostOne, exactlyOne } from "../../packages/resources/src/fields/cel.ts";
import { type KindDefinition, serviceName } from "../../packages/resources/src/kind-definition.ts";
import { DEFINITIONS } from "../../packages/resources/src/kinds/definitions.ts";
import { shared } from "./shared-schemas.ts";

export type JsonSchema = { readonly [key: string]: unknown };

/** The map of values that each kind is given by. A Network stands alone. */
export const NETWORK_CHART_MAPS: Readonly<Record<string, string>> = {
  EdgeRouter: "routers",
  Identity: "identities",
  OverlayService: "services",
  ServiceConfig: "serviceConfigs",
  ServicePolicy: "servicePolicies",
  EdgeRouterPolicy: "edgeRouterPolicies",
  ServiceEdgeRouterPolicy: "serviceEdgeRouterPolicies",
  AuthPolicy: "authPolicies",
  PostureCheck: "postureChecks",
};

/** Names of objects: of the longest the suffix of the configs beside a service has to fit. */
const NAME_MAX = 253;
const MAX_SUFFIX_LENGTH = "-intercept".length;

const labels: JsonSchema = {
  type: "object",
  description: "Labels of the object.",
  additionalProperties: { type: "string", maxLength: 63 },
};
const annotations: JsonSchema = {
  type: "object",
  description: "Annotations of the object.",
  additionalProperties: { type: "string" },
};
const metadata: JsonSchema = {
  type: "object",
  description: "Labels and annotations of the object.",
  additionalProperties: false,
  properties: { labels, annotations },
};

/** The text of values.schema.json. */
export function networkValuesSchema(): string {
  const maps = DEFINITIONS.flatMap((kind) => {
    const name = NETWORK_CHART_MAPS[kind.kind];
    return name === undefined ? [] : [[name, mapOf(kind)] as const];
  });
  const schema: JsonSchema = {
    type: "object",
    additionalProperties: false,
    properties: {
      nameOverride: { type: "string", maxLength: 63, description: "Name of the chart in labels." },
      network: network(kindNamed("Network")),
      ...Object.fromEntries(maps),
      commonLabels: { ...labels, description: "Labels of every object." },
      commonAnnotations: { ...annotations, description: "Annotations of every object." },
      keepOnUninstall: {
        type: "boolean",
        description: "Whether `helm uninstall` leaves the resources where they are.",
      },
      test: TEST,
      global: { type: "object", description: "What a chart of charts hands down; not used here." },
    },
  };
  return `${JSON.stringify({ $schema: "http://json-schema.org/draft-07/schema#", $comment: "Generated from packages/resources/src/kinds by `npm run generate`; do not edit.", ...shared(schema) }, undefined, 1)}\n`;
}

const TEST: JsonSchema = {
  type: "object",
  description: "The pod of `helm test`.",
  additionalProperties: false,
  properties: {
    enabled: { type: "boolean", description: "Whether there is one." },
    image: {
      type: "object",
      description: "Image of the operator.",
      additionalProperties: false,
      properties: {
        repository: { type: "string", minLength: 1, maxLength: 512 },
        tag: { type: "string", maxLength: 128 },
        digest: { type: "string", pattern: "^(sha256:[0-9a-f]{64})?$" },
        pullPolicy: { enum: ["Always", "IfNotPresent", "Never"] },
      },
    },
    imagePullSecrets: {
      type: "array",
      description: "Secrets for the image's registry.",
      items: {
        type: "object",
        additionalProperties: false,
        required: ["name"],
        properties: { name: { type: "string", minLength: 1, maxLength: NAME_MAX } },
      },
    },
    timeout: { type: "string", pattern: "^[0-9]+[smh]$", description: "How long it waits." },
    podLabels: { ...labels, description: "Labels of the pod." },
    podSecurityContext: {
      type: "object",
      description: "Security context of the pod.",
      additionalProperties: false,
      properties: {
        runAsNonRoot: { type: "boolean" },
        runAsUser: { type: "integer", minimum: 0 },
        runAsGroup: { type: "integer", minimum: 0 },
        seccompProfile: {
          type: "object",
          additionalProperties: false,
          properties: { type: { enum: ["RuntimeDefault", "Unconfined"] } },
        },
      },
    },
    resources: { type: "object", description: "What the pod asks for and may use." },
    nodeSelector: { ...labels, description: "Labels of the nodes that it may run on." },
    tolerations: { type: "array", description: "Taints that it puts up with.", items: { type: "object" } },
  },
};

function kindNamed(name: string): KindDefinition {
  const kind = DEFINITIONS.find((candidate) => candidate.kind === name);
  if (kind === undefined) throw new Error(`there is no kind ${name}`);
  return kind;
}

const specOf = (kind: KindDefinition): StructuralNode => objectSchema(kind).properties?.spec ?? {};

/** The Network: with neither of the two variants it is a managed one, with both it is refused. */
function network(kind: KindDefinition): JsonSchema {
  const { oneOf, ...spec } = jsonSchema(specOf(kind));
  if (oneOf === undefined) throw new Error("a Network has no longer two variants of which it is exactly one");
  const either = { ...spec, not: { required: ["external", "managed"] } };
  return {
    type: "object",
    description: kind.description,
    additionalProperties: false,
    properties: {
      create: { type: "boolean", description: "Whether the Network is of this release, or one that is there." },
      name: { type: "string", pattern: namePattern(kind), description: "Name of the Network." },
      metadata,
      spec: either,
    },
    // A Network that is not made here gets no spec either.
    if: { required: ["create"], properties: { create: { const: false } } },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { properties: { spec: { maxProperties: 0 } } },
  };
}

/** Resources of a kind by their names: the fields of the spec, but for the reference to the network, and beside them metadata. */
function mapOf(kind: KindDefinition): JsonSchema {
  const { oneOf, not, ...spec } = jsonSchema(specOf(kind));
  const { networkRef: _, ...properties } = spec.properties as Readonly<Record<string, JsonSchema>>;
  const required = (spec.required as readonly string[]).filter((name) => name !== "networkRef");
  const entry = {
    ...spec,
    // A values file that is laid over another takes an entry away by null.
    type: ["object", "null"],
    ...(required.length === 0 ? { required: undefined } : { required }),
    properties: { ...properties, metadata, ...(kind.kind === "OverlayService" ? serviceConfigs() : {}) },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    ...(oneOf === undefined && not === undefined ? {} : { if: { type: "object" }, then: { oneOf, not } }),
  };
  return {
    type: "object",
    description: `${kind.kind}: ${kind.description}`,
    // A validator of Helm tells a wrong path for propertyNames.
    patternProperties: { [namePattern(kind)]: entry },
    additionalProperties: false,
  };
}

/** The two configs that most services have, beside the service. */
function serviceConfigs(): Readonly<Record<string, JsonSchema>> {
  const data = specOf(kindNamed("ServiceConfig")).properties?.data ?? {};
  const config = (description: string) => ({ ...jsonSchema(data), description });
  return {
    host: config("Where hosts take connections on to: data of a ServiceConfig <name>-host of type host.v1."),
    intercept: config(
      "Under which address tunnelers catch connections: data of a ServiceConfig <name>-intercept of type intercept.v1.",
    ),
  };
}

/** What the API server and the rules on the whole object let through as metadata.name. */
function namePattern(kind: KindDefinition): string {
  const bounds = kind.rules.flatMap(({ rule }) => /^size\(self\.metadata\.name\) <= (\d+)$/.exec(rule)?.[1] ?? []);
  const longest = kind.kind === "OverlayService" ? NAME_MAX - MAX_SUFFIX_LENGTH : NAME_MAX;
  const between = Math.min(longest, ...bounds.map(Number)) - 2;
  const isOfService = kind.rules.some(({ rule }) => rule === serviceName.rule);
  return isOfService ? `^[a-z]([-a-z0-9]{0,${between}}[a-z0-9])?$` : `^[a-z0-9]([-a-z0-9.]{0,${between}}[a-z0-9])?$`;
}

const TAKEN = [
  "description",
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
  "required",
] as const;

/** A node of a CRD as JSON Schema: what is left open by pruning there is closed here. */
export function jsonSchema(node: StructuralNode): JsonSchema {
  const isOpen = node["x-kubernetes-preserve-unknown-fields"] === true;
  const isUnique = node["x-kubernetes-list-type"] === "set";
  const { properties, items, additionalProperties } = node;
  return {
    ...(node["x-kubernetes-int-or-string"] ? { type: ["integer", "string"] } : { type: node.type }),
    ...Object.fromEntries(TAKEN.flatMap((key) => (node[key] === undefined ? [] : [[key, node[key]]]))),
    ...(isUnique ? { uniqueItems: true } : {}),
    ...(items === undefined ? {} : { items: jsonSchema(items) }),
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(Object.entries(properties).map(([name, child]) => [name, jsonSchema(child)])),
        }),
    ...(node.type !== "object" || isOpen
      ? {}
      : { additionalProperties: additionalProperties === undefined ? false : jsonSchema(additionalProperties) }),
    ...exclusive(node),
  };
}

/** The two rules in CEL that JSON Schema can say as well. */
function exclusive(node: StructuralNode): JsonSchema {
  const all: JsonSchema[] = (node["x-kubernetes-validations"] ?? []).flatMap(({ rule }): JsonSchema[] => {
    const fields = [...rule.matchAll(/has\(self\.(\w+)\)/g)].map(([, name = ""]) => name);
    if (rule === exactlyOne(...fields).rule) return [{ oneOf: fields.map((field) => ({ required: [field] })) }];
    if (rule === atMostOne(...fields).rule && fields.length === 2) return [{ not: { required: fields } }];
    return [];
  });
  return Object.assign({}, ...all) as JsonSchema;
}
