import { formatDuration, type SchemaNode } from "@sallyport/config-file";
import { meanings, sharedName } from "./meanings.ts";
import type { ScalarMeta } from "./scalars.ts";
import { routerConfigSchema } from "./schema.ts";
import { idleReason } from "./without-effect.ts";

/** What values a key takes, for programs that describe the file in another schema language. */
export type ValueShape =
  | { readonly kind: "text" | "texts" | "boolean" }
  | { readonly kind: "integer"; readonly min?: number | undefined; readonly max?: number | undefined }
  /** A text such as `5s`; bounds in the same form. */
  | { readonly kind: "duration"; readonly min?: string | undefined; readonly max?: string | undefined };

/** A section, list or value of the file with what it is for. */
export type ConfigNode =
  | { readonly kind: "section"; readonly keys: Readonly<Record<string, ConfigNode>> }
  | { readonly kind: "list"; readonly meaning: string; readonly element: ValueShape }
  | { readonly kind: "value"; readonly meaning: string; readonly value: ValueShape };

/** What a key is for, by its name on the reference page, or why it changes nothing; empty for a key without a description. */
export function meaningOf(name: string): string {
  const reason = idleReason(name);
  return reason === undefined ? (meanings[sharedName(name)] ?? "") : `Without effect: ${reason}.`;
}

/**
 * The keys of one section with their bounds and meanings. Keys that mean nothing are left out.
 *
 * @throws TypeError for a section that holds what has no shape here: lists of sections, addresses, choices.
 */
export function sectionShape(name: "forwarder" | "metrics" | "healthChecks" | "csr"): ConfigNode & { kind: "section" } {
  const root = routerConfigSchema.in.shape[name] as unknown as SchemaNode;
  const node = shapeOf(root, name);
  if (node?.kind !== "section") throw new TypeError(`${name} is no section`);
  return node;
}

function shapeOf(node: SchemaNode, key: string): ConfigNode | undefined {
  const { def } = node._zod;
  const meaning = meaningOf(key);
  switch (def.type) {
    case "optional":
    case "default":
    case "prefault":
      return def.innerType === undefined ? undefined : shapeOf(def.innerType, key);
    case "object": {
      const children = Object.entries(def.shape ?? {}).map(
        ([name, child]) => [name, shapeOf(child, `${key}.${name}`)] as const,
      );
      return {
        kind: "section",
        keys: Object.fromEntries(children.filter((entry) => entry[1] !== undefined)),
      } as ConfigNode;
    }
    case "array":
      if (def.element === undefined) return undefined;
      return {
        kind: "list",
        meaning: meaningOf(`${key}[]`) || meaning,
        element: scalarShape(def.element, key),
      };
    case "transform":
      return { kind: "value", meaning, value: scalarShape(node, key) };
    default:
      return undefined;
  }
}

function scalarShape(node: SchemaNode, key: string): ValueShape {
  const { scalar, min, max } = (node.meta() ?? {}) as ScalarMeta;
  switch (scalar) {
    case "text":
    case "texts":
    case "boolean":
      return { kind: scalar };
    case "integer":
      return { kind: scalar, min, max };
    case "duration":
      return {
        kind: scalar,
        min: min === undefined ? undefined : formatDuration(min),
        max: max === undefined ? undefined : formatDuration(max),
      };
    default:
      throw new TypeError(`${key}: its values have no shape`);
  }
}
