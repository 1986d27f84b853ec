import { type ConfigNode, type RouterConfigFile, sectionShape, type ValueShape } from "@sallyport/router-config";
import type { z } from "zod";
import { duration, flag, integer, list, struct, text } from "../../resources/fields/bounded.ts";

type Section = "forwarder" | "metrics" | "healthChecks" | "csr";

/** What sections in sections are for; their keys say it themselves in the router's schema. */
const NESTED: Readonly<Record<string, string>> = {
  "healthChecks.ctrlPingCheck": "Whether a controller is connected and answers.",
  "healthChecks.linkCheck": "Whether there are enough links to other routers.",
  "csr.sans": "Names besides those that the operator finds itself.",
};

/** A section of the router's file as part of a spec: its keys, bounds and meanings are those of the router's schema. */
export function routerSection<Name extends Section>(
  name: Name,
  description: string,
): z.ZodType<NonNullable<RouterConfigFile[Name]>, NonNullable<RouterConfigFile[Name]>> {
  const schema: unknown = structOf(sectionShape(name), name, description);
  return schema as z.ZodType<NonNullable<RouterConfigFile[Name]>, NonNullable<RouterConfigFile[Name]>>;
}

function structOf(node: ConfigNode & { kind: "section" }, key: string, description: string): z.ZodType {
  const fields = Object.entries(node.keys).map(
    ([name, child]) => [name, fieldOf(child, `${key}.${name}`).optional()] as const,
  );
  return struct(description, Object.fromEntries(fields));
}

function fieldOf(node: ConfigNode, key: string): z.ZodType {
  switch (node.kind) {
    case "section":
      return structOf(node, key, NESTED[key] ?? "");
    case "list":
      return list(node.meaning, scalarNode(node.element, "One of them."), { type: "set", max: 64 });
    case "value":
      return scalarNode(node.value, node.meaning);
  }
}

function scalarNode(shape: ValueShape, meaning: string): z.ZodType {
  switch (shape.kind) {
    case "text":
      return text(meaning, { max: 1024 });
    case "texts":
      return list(meaning, text("One of them.", { max: 1024 }), { type: "set", max: 64 });
    case "boolean":
      return flag(meaning);
    case "integer":
      return integer(meaning, {
        ...(shape.min === undefined ? {} : { min: shape.min }),
        ...(shape.max === undefined ? {} : { max: shape.max }),
      });
    case "duration":
      return duration(meaning, {
        ...(shape.min === undefined ? {} : { min: shape.min }),
        ...(shape.max === undefined ? {} : { max: shape.max }),
      });
  }
}
