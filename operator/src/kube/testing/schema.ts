import { copy, isMap, type Json, type JsonMap } from "./json.ts";

/** How the items of a list are distinguished when several owners write it. */
export type ListType =
  | { readonly type: "atomic" }
  | { readonly type: "set" }
  | { readonly type: "map"; readonly keys: readonly string[] };

/** What the server knows about the fields of a kind. Names of fields without index: `spec.ports`. */
export interface Shape {
  listType(path: readonly string[]): ListType;
  /** Values that are missing are filled in. */
  withDefaults(object: JsonMap): void;
  /** The keys of list items that have a default are filled in: an intent may leave them out. */
  completeKeys(intent: JsonMap): void;
  /** Fields that the schema does not know are dropped. */
  prune(object: JsonMap): void;
  readonly hasStatus: boolean;
}

const ATOMIC: ListType = { type: "atomic" };
const SET: ListType = { type: "set" };

function byKeys(...keys: string[]): ListType {
  return { type: "map", keys };
}

/** Lists of Kubernetes' own kinds that the operator writes; those not named are atomic. The last names of the path decide. */
const BUILT_IN_LISTS: readonly (readonly [path: string, type: ListType])[] = [
  ["metadata.ownerReferences", byKeys("uid")],
  ["metadata.finalizers", SET],
  ["status.conditions", byKeys("type")],
  ["initContainers", byKeys("name")],
  ["containers", byKeys("name")],
  ["containers.env", byKeys("name")],
  ["initContainers.env", byKeys("name")],
  ["containers.ports", byKeys("containerPort", "protocol")],
  ["containers.volumeMounts", byKeys("mountPath")],
  ["initContainers.volumeMounts", byKeys("mountPath")],
  ["spec.volumes", byKeys("name")],
  ["spec.imagePullSecrets", byKeys("name")],
  ["spec.topologySpreadConstraints", byKeys("topologyKey", "whenUnsatisfiable")],
  ["spec.ports", byKeys("port", "protocol")],
];

/** The shape of a kind of Kubernetes itself. */
export function builtInShape(kind: string): Shape {
  return {
    listType: (path) => BUILT_IN_LISTS.find(([end]) => endsWith(path, end))?.[1] ?? ATOMIC,
    withDefaults: nameProtocols,
    completeKeys: nameProtocols,
    prune: () => {},
    hasStatus: !["ConfigMap", "Secret", "ServiceAccount", "Lease", "Event", "Role", "RoleBinding"].includes(kind),
  };
}

function nameProtocols(object: JsonMap): void {
  for (const list of portLists(object)) {
    for (const port of list) if (isMap(port)) port.protocol ??= "TCP";
  }
}

function endsWith(path: readonly string[], end: string): boolean {
  const names = end.split(".");
  return names.every((name, i) => path[path.length - names.length + i] === name);
}

/** Lists of ports, whose key has a default. */
function* portLists(value: Json): Iterable<Json[]> {
  if (Array.isArray(value)) for (const item of value) yield* portLists(item);
  if (!isMap(value)) return;
  for (const [name, inner] of Object.entries(value)) {
    if (name === "ports" && Array.isArray(inner)) yield inner;
    else yield* portLists(inner);
  }
}

/** A structural schema as a CustomResourceDefinition has it. */
interface Schema {
  readonly type?: string;
  readonly default?: Json;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly items?: Schema;
  readonly "x-kubernetes-preserve-unknown-fields"?: boolean;
  readonly "x-kubernetes-list-type"?: string;
  readonly "x-kubernetes-list-map-keys"?: readonly string[];
  readonly "x-kubernetes-int-or-string"?: boolean;
}

/** The shape that the schema of a CustomResourceDefinition gives. */
export function schemaShape(schema: Schema, hasStatus: boolean): Shape {
  return {
    listType: (path) => {
      const own = builtInMeta(path);
      if (own !== undefined) return own;
      const found = path.reduce<Schema | undefined>((at, name) => {
        const inner = at?.items ?? at;
        const more = inner?.additionalProperties;
        return inner?.properties?.[name] ?? (typeof more === "object" ? more : undefined);
      }, schema);
      if (found?.["x-kubernetes-list-type"] === "set") return SET;
      const keys = found?.["x-kubernetes-list-map-keys"];
      return found?.["x-kubernetes-list-type"] === "map" && keys ? { type: "map", keys } : ATOMIC;
    },
    withDefaults: (object) => fill(object, schema),
    completeKeys: () => {},
    prune: (object) => {
      // The schema says no more of metadata than that it is an object: its fields are the server's.
      const { apiVersion, kind, metadata } = object;
      delete object.metadata;
      pruneBy(object, schema);
      Object.assign(object, { apiVersion, kind, ...(metadata === undefined ? {} : { metadata }) });
    },
    hasStatus,
  };
}

function builtInMeta(path: readonly string[]): ListType | undefined {
  if (path[0] !== "metadata") return undefined;
  return path[1] === "finalizers" ? SET : path[1] === "ownerReferences" ? byKeys("uid") : ATOMIC;
}

function fill(value: Json, schema: Schema): void {
  if (Array.isArray(value)) {
    if (schema.items !== undefined) for (const item of value) fill(item, schema.items);
    return;
  }
  if (!isMap(value)) return;
  for (const [name, inner] of Object.entries(schema.properties ?? {})) {
    if (value[name] === undefined && inner.default !== undefined) value[name] = copy(inner.default);
    const given = value[name];
    if (given !== undefined) fill(given, inner);
  }
  const more = schema.additionalProperties;
  if (typeof more === "object") {
    for (const [name, given] of Object.entries(value)) if (!(name in (schema.properties ?? {}))) fill(given, more);
  }
}

function pruneBy(value: Json, schema: Schema): void {
  if (Array.isArray(value)) {
    if (schema.items !== undefined) for (const item of value) pruneBy(item, schema.items);
    return;
  }
  if (!isMap(value)) return;
  for (const [name, given] of Object.entries(value)) {
    const more = schema.additionalProperties;
    const inner = schema.properties?.[name] ?? (typeof more === "object" ? more : undefined);
    if (inner !== undefined) pruneBy(given, inner);
    else if (more !== true && !schema["x-kubernetes-preserve-unknown-fields"]) delete value[name];
  }
}
