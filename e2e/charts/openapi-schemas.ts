/** JSON schemas for kubeconform, from what an API server says of its kinds: one file for each. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Schema {
  readonly type?: string;
  readonly format?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly $ref?: string;
  readonly "x-kubernetes-preserve-unknown-fields"?: boolean;
  readonly "x-kubernetes-group-version-kind"?: readonly {
    readonly group: string;
    readonly version: string;
    readonly kind: string;
  }[];
}

/** As `kubectl get --raw /openapi/v2` prints it. */
export interface OpenApi {
  readonly definitions: Readonly<Record<string, Schema>>;
}

/**
 * Writes the schemas into a folder; unknown fields are refused by them.
 *
 * @returns where kubeconform finds them
 */
export function writeSchemas({ definitions }: OpenApi, folder: string): string {
  for (const [name, schema] of Object.entries(definitions)) {
    for (const { group, version, kind } of schema["x-kubernetes-group-version-kind"] ?? []) {
      const place = join(folder, group === "" ? version : group);
      mkdirSync(place, { recursive: true });
      const needed = Object.fromEntries(
        [...neededBy(name, definitions)].map((each) => [each, strictly(definitions[each] ?? {})]),
      );
      const file = { $ref: `${REFERENCE}${name}`, definitions: needed };
      writeFileSync(join(place, `${kind.toLowerCase()}_${version}.json`), JSON.stringify(file));
    }
  }
  return join(folder, "{{ .Group }}", "{{ .ResourceKind }}_{{ .ResourceAPIVersion }}.json");
}

const REFERENCE = "#/definitions/";

/** The names of a definition and of all that it refers to. */
function neededBy(name: string, definitions: OpenApi["definitions"], found = new Set<string>()): Set<string> {
  if (found.has(name)) return found;
  found.add(name);
  for (const [, next = ""] of JSON.stringify(definitions[name]).matchAll(/"\$ref":"#\/definitions\/([^"]+)"/g))
    neededBy(next, definitions, found);
  return found;
}

function strictly(schema: Schema): unknown {
  // Quantities and ports are numbers as well as texts, though they are said to be texts.
  if (schema.format === "int-or-string" || schema.type === undefined) return withoutType(schema);
  const { properties, items, additionalProperties, ...rest } = schema;
  const isOpen = schema["x-kubernetes-preserve-unknown-fields"] === true;
  return {
    ...rest,
    ...(items === undefined ? {} : { items: strictly(items) }),
    ...(properties === undefined ? {} : { properties: mapped(properties), additionalProperties: isOpen }),
    ...(typeof additionalProperties === "object" ? { additionalProperties: strictly(additionalProperties) } : {}),
  };
}

function withoutType({ $ref }: Schema): unknown {
  if ($ref === undefined) return {};
  return $ref.endsWith(".api.resource.Quantity") ? { type: ["string", "number"] } : { $ref };
}

const mapped = (properties: Readonly<Record<string, Schema>>) =>
  Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, strictly(schema)]));
