/** The fields of the kinds of `sallyport`, from the contract of the APIs. */
import type { Field, FieldType } from "../../cli/src/kinds/kind.ts";
import { type ContractKind, singularOf } from "./contract-kinds.ts";
import { bodySchema, type Schema } from "./contract-schemas.ts";

/** What names do not say: the kind that a field refers to, or that it refers to none. */
const REFERENCES: Readonly<Record<string, string | undefined>> = {
  "identity.enrollment.ottca": "ca",
  "identity.serviceHostingCosts": "service",
  "identity.serviceHostingPrecedences": "service",
  // A text of the application, not an identity of the network.
  "terminator.identity": undefined,
  "auth-policy.primary.extJwt.allowedSigners": "external-jwt-signer",
  "auth-policy.secondary.requireExtJwtSigner": "external-jwt-signer",
  "external-jwt-signer.enrollAuthPolicyId": "auth-policy",
  "link.sourceRouter": "router",
  "link.destRouter": "router",
};

/** What a change may name, but not change. */
const FIXED: readonly string[] = ["service.encryptionRequired", "config-type.target", "posture-check.typeId"];

/** Never shown on a terminal while they are typed, and not taken from the command line. */
const SECRETS: readonly string[] = ["authenticator.password", "terminator.identitySecret"];

type Place = "shown" | "create" | "patch";

/** Fields by kind. @throws Error for an entry of {@link REFERENCES} that names no field of the contract */
export function contractFields(kinds: readonly ContractKind[]): Record<string, Field[]> {
  const fields = Object.fromEntries(kinds.map((kind) => [kind.name, fieldsOf(kind, kinds)]));
  for (const place of [...Object.keys(REFERENCES), ...FIXED, ...SECRETS]) {
    const [kind = "", ...path] = place.split(".");
    if (fields[kind]?.some(({ name }) => name === path.join(".")) !== true)
      throw new Error(`scripts/cli/contract-fields.ts names ${place}, which the contract does not have`);
  }
  return fields;
}

function fieldsOf(kind: ContractKind, kinds: readonly ContractKind[]): Field[] {
  const found = new Map<string, Field>();
  const { create, patch } = kind.operations;
  // Of a creation first: its order is the one to ask in.
  add(found, bodySchema(create?.body), "create");
  add(found, bodySchema(patch?.body), "patch");
  add(found, kind.shown, "shown");
  return [...found.values()].map(({ isChangeable, ...field }) => {
    const place = `${kind.name}.${field.name}`;
    const refersTo = referredKind(kind, field, found, kinds);
    const isSelector = field.isList === true && found.has(`${field.name}Display`);
    return {
      ...field,
      ...(isChangeable === true && !FIXED.includes(place) && { isChangeable }),
      ...(refersTo !== undefined && { refersTo }),
      ...(isSelector && { isSelector }),
      ...(SECRETS.includes(place) && { isSecret: true }),
    };
  });
}

/** Adds the fields of a schema; those of a union with the `typeId`s that have them. */
function add(found: Map<string, Field>, schema: Schema | undefined, place: Place): void {
  if (schema?.oneOf === undefined) addObject(found, schema ?? {}, place, "", undefined);
  else addUnion(found, schema.oneOf, place);
}

function addUnion(found: Map<string, Field>, members: readonly Schema[], place: Place): void {
  const types = members.map((each) => {
    const { enum: values, const: value } = each.properties?.typeId ?? {};
    return String(value ?? values?.[0]);
  });
  const named = (name: string) => members.filter((each) => each.properties?.[name] !== undefined).length;
  for (const [index, each] of members.entries()) {
    const properties = Object.entries(each.properties ?? {});
    const common = properties.filter(([name]) => named(name) === types.length && name !== "typeId");
    const own = properties.filter(([name]) => named(name) !== types.length);
    const part = (entries: typeof properties): Schema => ({ ...each, properties: Object.fromEntries(entries) });
    addObject(found, part(common), place, "", undefined);
    addObject(found, part(own), place, "", types[index]);
  }
  const typeId = { type: "string", enum: types } as const;
  addObject(found, { properties: { typeId }, required: ["typeId"] }, place, "", undefined);
}

function addObject(
  found: Map<string, Field>,
  { properties = {}, required = [] }: Schema,
  place: Place,
  prefix: string,
  only: string | undefined,
  isNeeded = true,
): void {
  for (const [key, given] of Object.entries(properties)) {
    if (key === "_links") continue;
    const schema = withoutNull(given);
    const name = `${prefix}${key}`;
    if (schema.properties !== undefined && !isReference(schema)) {
      addObject(found, schema, place, `${name}.`, only, isNeeded && required.includes(key));
      continue;
    }
    const before = found.get(name);
    const field = { ...described(name, schema), ...before, name };
    const onlyNow = only === undefined ? undefined : [...new Set([...(before?.only ?? []), only])];
    found.set(name, {
      ...field,
      ...(place === "shown" && { isShown: true }),
      ...(place === "patch" && { isChangeable: true }),
      ...(place === "create" && { creation: isNeeded && required.includes(key) ? "required" : "optional" }),
      ...(place === "create" && schema.default !== undefined && { standard: schema.default }),
      ...(onlyNow !== undefined && { only: onlyNow }),
    });
  }
}

function described(name: string, schema: Schema): Field {
  if (schema.type === "array") return { ...described(name, withoutNull(schema.items ?? {})), isList: true };
  const bounds = {
    ...(schema.minimum !== undefined && schema.minimum > Number.MIN_SAFE_INTEGER && { minimum: schema.minimum }),
    ...(schema.maximum !== undefined && schema.maximum < Number.MAX_SAFE_INTEGER && { maximum: schema.maximum }),
  };
  const values = schema.const === undefined ? schema.enum : [schema.const];
  const isMap = typeOf(schema) === "map" && typeof schema.additionalProperties === "object";
  return {
    name,
    type: typeOf(schema),
    ...(isMap && { of: typeOf(withoutNull(schema.additionalProperties as Schema)) }),
    ...(values !== undefined && { values: values.map(String) }),
    ...bounds,
  };
}

function typeOf(schema: Schema): FieldType {
  if (isReference(schema)) return "reference";
  if (schema.properties !== undefined || schema.oneOf !== undefined) return "object";
  if (schema.type === "string") return schema.format === "date-time" ? "time" : "text";
  if (schema.type === "integer" || schema.type === "number" || schema.type === "boolean") return schema.type;
  return schema.type === "object" ? "map" : "any";
}

function isReference({ properties }: Schema): boolean {
  return ["_links", "entity", "id", "name"].every((name) => properties?.[name] !== undefined);
}

function withoutNull(schema: Schema): Schema {
  const { anyOf, ...others } = schema;
  if (Array.isArray(schema.type)) {
    const [type, ...more] = schema.type.filter((each) => each !== "null");
    return type === undefined || more.length > 0 ? schema : { ...schema, type };
  }
  const [first, ...more] = anyOf?.filter(({ type }) => type !== "null") ?? [];
  return first === undefined || more.length > 0 ? schema : { ...first, ...others };
}

/** By the name: `authPolicyId`, `serviceRoles` beside `serviceRolesDisplay`, `configs`. */
function referredKind(
  kind: ContractKind,
  field: Field,
  all: ReadonlyMap<string, Field>,
  kinds: readonly ContractKind[],
): string | undefined {
  const place = `${kind.name}.${field.name}`;
  if (place in REFERENCES) return REFERENCES[place];
  const last = field.name.split(".").at(-1) ?? "";
  const isRoles = all.has(`${field.name}Display`);
  const bare = isRoles ? last.replace(/Roles$/, "") : last.replace(/Id$/, "");
  const name = bare.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const found = kinds.find((each) => each.name === name || (field.isList === true && each.name === singularOf(name)));
  return field.type === "text" || field.type === "reference" ? found?.name : undefined;
}
