/** Requests that no client should send: bodies close to valid ones and far from them, ids, list parameters and headers of every kind. */
import fc from "fast-check";
import { z } from "zod";

/** JSON Schema as far as the contract's shapes use it. */
interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly additionalProperties?: Schema | boolean;
  readonly format?: string;
  readonly minLength?: number;
  readonly minItems?: number;
  readonly $ref?: string;
}

/** Text that has broken parsers, stores and logs. */
const NASTY_TEXT = [
  "",
  " ",
  "#all",
  "@",
  "#",
  "@unknown",
  "\u0000",
  "\ud800",
  "'; DROP TABLE identity; --",
  "%00",
  "../../etc/passwd",
  "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
  "-----BEGIN CERTIFICATE REQUEST-----\n!!\n-----END CERTIFICATE REQUEST-----\n",
  "🦜".repeat(40),
  "a".repeat(5000),
  "http://169.254.169.254/latest",
  "1e400",
  "NaN",
  "constructor",
  "__proto__",
  "2026-02-30T25:61:00Z",
  "9999999999999999999999",
  "[",
  "(a+)+$",
];

const nastyText = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...NASTY_TEXT) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 30 }) },
);

const nastyNumber = fc.constantFrom(-1, 0, 0.5, 65536, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308, 5e-324);

/** Any JSON, strange leaves included. */
const anyJson: fc.Arbitrary<unknown> = fc.letrec<{ node: unknown }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    nastyText,
    nastyNumber,
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("node"), { maxLength: 3 }),
    fc.dictionary(nastyText, tie("node"), { maxKeys: 3, noNullPrototype: true }),
  ),
})).node;

/** Values that a body's schema takes; texts are often ids or names of what exists. */
function validBody(shape: z.ZodType, known: readonly string[]): fc.Arbitrary<unknown> {
  const root = z.toJSONSchema(shape, { io: "input", unrepresentable: "any" }) as Schema & {
    readonly $defs?: Readonly<Record<string, Schema>>;
  };
  const text = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...known) },
    { weight: 2, arbitrary: fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 12 }) },
    { weight: 1, arbitrary: fc.constantFrom(...known).map((id) => `@${id}`) },
    { weight: 1, arbitrary: fc.constantFrom("#all", "#a", "#b") },
    { weight: 1, arbitrary: nastyText },
  );
  const of = (schema: Schema, depth: number): fc.Arbitrary<unknown> => {
    if (schema.$ref !== undefined) {
      const target = schema.$ref === "#" ? root : root.$defs?.[schema.$ref.slice("#/$defs/".length)];
      return target === undefined || depth > 6 ? fc.constant(null) : of(target, depth + 1);
    }
    if (schema.const !== undefined) return fc.constant(schema.const);
    if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
    const choices = schema.anyOf ?? schema.oneOf;
    if (choices !== undefined) return fc.oneof(...choices.map((each) => of(each, depth + 1)));
    const types = schema.type === undefined ? [] : [schema.type].flat();
    const [type] = types;
    switch (type) {
      case "object":
        return objectOf(schema, depth);
      case "array":
        return fc.array(of(schema.items ?? {}, depth + 1), { minLength: schema.minItems ?? 0, maxLength: 3 });
      case "string":
        if (schema.format === "date-time") return fc.constantFrom("2030-01-01T00:00:00.000Z", "2020-01-01T00:00:00Z");
        return text.filter((value) => value.length >= (schema.minLength ?? 0));
      case "integer":
        return fc.integer({ min: 0, max: 70_000 });
      case "number":
        return fc.double({ noNaN: true, noDefaultInfinity: true });
      case "boolean":
        return fc.boolean();
      case "null":
        return fc.constant(null);
      default:
        return anyJson;
    }
  };
  const objectOf = (schema: Schema, depth: number): fc.Arbitrary<unknown> => {
    const { properties = {}, required = [], additionalProperties } = schema;
    const model = Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, of(each, depth + 1)]));
    const named = fc.record(model, { requiredKeys: [...required], noNullPrototype: true });
    if (typeof additionalProperties !== "object") return named;
    const more = fc.dictionary(text, of(additionalProperties, depth + 1), { maxKeys: 2, noNullPrototype: true });
    return fc.tuple(named, more).map(([a, b]) => ({ ...b, ...(a as object) }));
  };
  return of(root, 0);
}

/** Bodies as they are sent: valid ones, valid ones with one place spoilt, other JSON, and text that is no JSON. */
export function requestBody(shape: z.ZodType | undefined, known: readonly string[]): fc.Arbitrary<string> {
  const text = (value: unknown) => JSON.stringify(value) ?? "null";
  const garbage = fc.oneof(
    anyJson.map(text),
    nastyText,
    fc.constantFrom("{", "[]", '{"a":'.repeat(150), '{"a":1,"a":2}'),
  );
  if (shape === undefined) return garbage;
  const valid = validBody(shape, known);
  const spoilt = fc.tuple(valid, fc.nat(), anyJson).map(([body, at, value]) => spoil(body, at, value));
  return fc.oneof(
    { weight: 4, arbitrary: valid.map(text) },
    { weight: 5, arbitrary: spoilt.map(text) },
    { weight: 1, arbitrary: garbage },
  );
}

/** A copy in which the `at`-th place (round and round) holds `value`. */
function spoil(body: unknown, at: number, value: unknown): unknown {
  const places = placesOf(body, []);
  const place = places[at % places.length] ?? [];
  const put = (node: unknown, [key, ...rest]: readonly (string | number)[]): unknown => {
    if (key === undefined) return value;
    if (Array.isArray(node)) return node.map((each, index) => (index === key ? put(each, rest) : each));
    const fields = node as Record<string, unknown>;
    return { ...fields, [key]: put(fields[key], rest) };
  };
  return put(body, place);
}

function placesOf(node: unknown, path: readonly (string | number)[]): (readonly (string | number)[])[] {
  if (typeof node !== "object" || node === null) return [path];
  const below = Object.entries(node).flatMap(([key, value]) =>
    placesOf(value, [...path, Array.isArray(node) ? Number(key) : key]),
  );
  return [path, ...below];
}

/** One segment of a path, encoded. */
export function pathSegment(known: readonly string[]): fc.Arbitrary<string> {
  return fc.oneof(
    { weight: 5, arbitrary: fc.constantFrom(...known) },
    { weight: 2, arbitrary: nastyText.map((value) => encodeURIComponent(value.toWellFormed()) || "-") },
    { weight: 1, arbitrary: fc.constantFrom("%", "%zz", "%ff", ".", "..", "%2e%2e", "a%2fb") },
  );
}

const OPERATORS = [
  "=",
  "!=",
  "<",
  ">=",
  "contains",
  "not icontains",
  "in",
  "between",
  "and",
  "or",
  "not",
  "(",
  ")",
  "[",
  "]",
];
const WORDS = [
  "id", "name", "tags.a", "createdAt", "identity.name", "type", "isAdmin", "roleAttributes", "anyOf(roleAttributes)",
  "allOf(identities)", "count(services)", "isEmpty(configs)", "true", "null", '"x"', '"\\""', "1", "1.5", "-", "datetime(2026-01-01T00:00:00Z)",
  "sort by", "asc", "limit", "none", "skip", "from services where", ",", "secret", "password_hash",
]; // biome-ignore format: a list of words

/** Filters: pieces of the grammar in any order, and other text. */
const anyFilter = fc.oneof(
  fc.array(fc.constantFrom(...OPERATORS, ...WORDS), { maxLength: 8 }).map((parts) => parts.join(" ")),
  nastyText,
);

/** Query strings: list parameters, those the operation names, and others. */
export function anyQuery(names: readonly string[], known: readonly string[]): fc.Arbitrary<string> {
  const value = fc.oneof(fc.constantFrom(...known, "password", "cert", "ott", "all", "dial", "AnyOf"), nastyText);
  const pair = fc.oneof(
    fc.tuple(fc.constant("filter"), anyFilter),
    fc.tuple(fc.constantFrom("limit", "offset"), fc.oneof(nastyNumber.map(String), nastyText)),
    fc.tuple(fc.constant("sort"), anyFilter),
    fc.tuple(fc.constantFrom(...names, "roleFilter", "token"), value),
  );
  return fc
    .array(pair, { maxLength: 3 })
    .map((pairs) => pairs.map(([name, text]) => `${name}=${encodeURIComponent(text.toWellFormed())}`).join("&"));
}
