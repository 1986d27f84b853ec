import type { KindDefinition } from "../kind-definition.ts";
import { objectSchema, type StructuralNode } from "./crd.ts";

/** The schemas of whole objects as a module of data: a program that checks files of users does not need what they are made with. */
export function schemaModule(kinds: readonly KindDefinition[]): string {
  const entries = kinds.map((kind) => `  ${kind.kind}: ${JSON.stringify(undescribed(objectSchema(kind)))},\n`);
  return `// Made from the schemas of the kinds: \`npm run generate\`.
import type { StructuralNode } from "../crd/crd.ts";

/** Schemas of whole objects by kind, without descriptions. */
export const SCHEMAS: Readonly<Record<string, StructuralNode>> = {\n${entries.join("")}};\n`;
}

function undescribed(node: StructuralNode): StructuralNode {
  const { description: _, properties, items, additionalProperties, ...rest } = node;
  const fields = Object.entries(properties ?? {}).map(([name, child]) => [name, undescribed(child)] as const);
  return {
    ...rest,
    ...(properties && { properties: Object.fromEntries(fields) }),
    ...(items && { items: undescribed(items) }),
    ...(additionalProperties && { additionalProperties: undescribed(additionalProperties) }),
  };
}
