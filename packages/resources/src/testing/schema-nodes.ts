import type { StructuralNode } from "../crd/crd.ts";

/** All nodes of a schema by their paths: `spec.tags`, `spec.tags.*` for its values, `status.routers[]` for its entries. */
export function nodesOf(schema: StructuralNode): ReadonlyMap<string, StructuralNode> {
  const nodes = new Map<string, StructuralNode>();
  const walk = (node: StructuralNode, at: string) => {
    nodes.set(at, node);
    for (const [name, child] of Object.entries(node.properties ?? {})) walk(child, at === "" ? name : `${at}.${name}`);
    if (node.items !== undefined) walk(node.items, `${at}[]`);
    if (node.additionalProperties !== undefined) walk(node.additionalProperties, `${at}.*`);
  };
  walk(schema, "");
  return nodes;
}
