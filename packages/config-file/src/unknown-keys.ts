import type { Path } from "./problems.ts";

/** A zod schema from outside: the parts that are walked over to find unknown keys or to describe a file. */
export interface SchemaNode {
  readonly description?: string | undefined;
  readonly meta: () => Readonly<Record<string, unknown>> | undefined;
  readonly _zod: {
    readonly def: {
      readonly type: string;
      readonly shape?: Readonly<Record<string, SchemaNode>>;
      readonly innerType?: SchemaNode;
      readonly in?: SchemaNode;
      readonly element?: SchemaNode;
      readonly options?: readonly SchemaNode[];
      readonly discriminator?: string;
      readonly values?: readonly unknown[];
      readonly defaultValue?: unknown;
    };
  };
}

/** A key of a configuration that its schema does not have. */
export interface UnknownKey {
  readonly path: Path;
  readonly known: readonly string[];
}

/** The keys of a configuration that the schema does not know, at any depth but within mappings with free keys. */
export function findUnknownKeys(value: unknown, schema: SchemaNode, path: Path = []): UnknownKey[] {
  const node = valueSchema(schema, value);
  const { shape, element } = node._zod.def;
  if (element !== undefined && Array.isArray(value)) {
    return value.flatMap((item, i) => findUnknownKeys(item, element, [...path, i]));
  }
  if (shape === undefined || !isMap(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const schemaOfKey = shape[key];
    return schemaOfKey === undefined
      ? [{ path: [...path, key], known: Object.keys(shape) }]
      : findUnknownKeys(inner, schemaOfKey, [...path, key]);
  });
}

/** The schema without defaults and transforms; of several kinds of mapping the one that the value names. */
function valueSchema(node: SchemaNode, value: unknown): SchemaNode {
  const { innerType, in: input, options, discriminator } = node._zod.def;
  if (innerType !== undefined) return valueSchema(innerType, value);
  if (input !== undefined) return valueSchema(input, value);
  if (options === undefined || discriminator === undefined || !isMap(value)) return node;
  const kinds = options.map((option) => valueSchema(option, value));
  const isNamed = (kind: SchemaNode) =>
    kind._zod.def.shape?.[discriminator]?._zod.def.values?.includes(value[discriminator]);
  return kinds.find(isNamed) ?? node;
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value));
