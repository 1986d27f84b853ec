/** Request input against the contract: query and body become typed values, or the error that says what is wrong with them. */
import { ApiError, apiError, fieldCause, fieldError, type Operation, unhandledCause } from "@sallyport/api";
import { z } from "zod";

const MAX_DEPTH = 100;

/** Parses the JSON of a body. Its text is never part of an error, as it may hold secrets. */
export function parseJson(text: string): unknown {
  if (isTooDeep(text)) {
    throw apiError("COULD_NOT_PARSE_BODY", unhandledCause(`the JSON is nested more than ${MAX_DEPTH} deep`));
  }
  try {
    const value: unknown = JSON.parse(text);
    if (text.includes("\\u0000") && holdsNul(value)) throw fieldError("body", "text may not hold the character U+0000");
    if (/\\ud[89a-f]/i.test(text) && holdsHalfPair(value)) {
      throw fieldError("body", "text may not hold half a surrogate pair");
    }
    return value;
  } catch (error) {
    if (error instanceof ApiError) throw error;
    const at = error instanceof SyntaxError ? /at position \d+/.exec(error.message)?.[0] : undefined;
    throw apiError("COULD_NOT_PARSE_BODY", unhandledCause(`the body is not valid JSON${at ? `: error ${at}` : ""}`));
  }
}

/**
 * A parsed body as the operation's handler wants it. Unknown keys are dropped; null for a field that need not be there
 * is the same as leaving it out.
 */
export function readBody(schema: z.ZodType, value: unknown): unknown {
  if (value === undefined) throw fieldError("body", "body in body is required");
  // null is an object without anything, so that what is said to be missing are its fields.
  const cleaned = withoutNulls(schema, value ?? {});
  const parsed = schema.safeParse(cleaned);
  if (!parsed.success) throw inputError("body", parsed.error, cleaned);
  return parsed.data;
}

/** The query parameters of an operation, apart from those of paged lists. */
export function readQuery(operation: Operation, raw: Readonly<Record<string, unknown>>): unknown {
  const given: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(operation.query.shape)) {
    const value = raw[name];
    if (value === undefined) continue;
    if (holdsNul(value)) throw fieldError(name, `${name} in query may not hold the character U+0000`);
    const values = Array.isArray(value) ? value : [value];
    // A list is a repeated parameter; of anything else the last one counts. An empty one counts as not given.
    if (unwrapped(schema as z.ZodType) instanceof z.ZodArray) given[name] = values.filter((each) => each !== "");
    else if (values.at(-1) !== "") given[name] = values.at(-1);
  }
  const parsed = operation.query.safeParse(given);
  if (!parsed.success) throw inputError("query", parsed.error, given);
  return parsed.data;
}

/** The last value of a query parameter that is plain text. */
export function single(value: unknown): string | undefined {
  const last: unknown = Array.isArray(value) ? value.at(-1) : value;
  return typeof last === "string" ? last : undefined;
}

function inputError(where: "body" | "query", error: z.ZodError, input: unknown): ApiError {
  const rank = (issue: z.core.$ZodIssue) => (isMalformed(issue, valueAt(input, issue.path)) ? 0 : 1);
  const name = (issue: z.core.$ZodIssue) => issue.path.join(".");
  // The first of several is chosen as OpenZiti does it: wrong types first, then by name.
  const [issue] = error.issues.toSorted((a, b) => rank(a) - rank(b) || (name(a) < name(b) ? -1 : 1));
  if (issue === undefined) return apiError("COULD_NOT_VALIDATE");
  const value = valueAt(input, issue.path);
  const field = name(issue) || where;
  const place = `${field} in ${where}`;
  if (where === "body" && isMalformed(issue, value)) {
    const expected = issue.code === "invalid_type" ? issue.expected : "one of the documented shapes";
    const text = `${place} must be ${expected}, not ${Array.isArray(value) ? "array" : typeof value}`;
    return apiError("COULD_NOT_PARSE_BODY", unhandledCause(text));
  }
  return apiError("COULD_NOT_VALIDATE", fieldCause(field, reason(place, issue, value), secretless(field, value)));
}

/** A value of the wrong type, which OpenZiti's decoder refuses before it checks any rule. */
function isMalformed(issue: z.core.$ZodIssue, value: unknown): boolean {
  return (issue.code === "invalid_type" && value !== undefined) || issue.code === "invalid_union";
}

function reason(name: string, issue: z.core.$ZodIssue, value: unknown): string {
  if (value === undefined) return `${name} is required`;
  switch (issue.code) {
    case "invalid_value":
      return `${name} should be one of [${issue.values.join(" ")}]`;
    case "too_small":
      return issue.origin === "string"
        ? `${name} should be at least ${issue.minimum} chars long`
        : `${name} should be greater than or equal to ${issue.minimum}`;
    case "too_big":
      return issue.origin === "string"
        ? `${name} should be at most ${issue.maximum} chars long`
        : `${name} should be less than or equal to ${issue.maximum}`;
    case "invalid_format":
      return `${name} must be of type ${issue.format}`;
    default:
      return `${name} is invalid: ${issue.message}`;
  }
}

function secretless(field: string, value: unknown): unknown {
  return /password|code/i.test(field) ? undefined : value;
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) value = isRecord(value) || Array.isArray(value) ? Reflect.get(value, key) : undefined;
  return value;
}

/** Drops the keys whose value is null where the schema has no use for one, following the schema, so maps keep theirs. */
function withoutNulls(schema: z.ZodType, value: unknown): unknown {
  const type = unwrapped(schema);
  if (type instanceof z.ZodArray && Array.isArray(value)) return withoutNullItems(type.element as z.ZodType, value);
  if (!isRecord(value)) return value;
  if (type instanceof z.ZodRecord) return withFirstWrongValue(type.valueType as z.ZodType, value);
  const shape = shapeFor(type, value);
  if (shape === undefined) return value;
  const kept: Record<string, unknown> = {};
  const otherwise = otherSpellings(shape, value);
  for (const [name, field] of Object.entries(shape)) {
    const key = Object.hasOwn(value, name) ? name : otherwise.get(name.toLowerCase());
    if (key === undefined) continue;
    const given = value[key];
    if (given !== null || takesNull(field as z.ZodType)) kept[name] = withoutNulls(field as z.ZodType, given);
  }
  return kept;
}

/** Of longer lists and maps only the first wrong item is looked at: the answer has one error, and a search for thousands would delay all callers. */
const SHORT_LIST = 64;

function withoutNullItems(item: z.ZodType, list: readonly unknown[]): unknown[] {
  const isLong = list.length > SHORT_LIST;
  const cleaned: unknown[] = [];
  for (const each of list) {
    cleaned.push(withoutNulls(item, each));
    if (isLong && !item.safeParse(cleaned.at(-1)).success) break;
  }
  return cleaned;
}

function withFirstWrongValue(item: z.ZodType, map: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const entries = Object.entries(map);
  if (entries.length <= SHORT_LIST) return map;
  const wrong = entries.find(([, value]) => !item.safeParse(value).success);
  return wrong === undefined ? map : Object.fromEntries([wrong]);
}

/** Keys that are no field's name, by their lower-case spelling. OpenZiti ignores the case of keys, and its CLI relies on that in places. */
function otherSpellings(shape: z.ZodRawShape, value: Readonly<Record<string, unknown>>): ReadonlyMap<string, string> {
  const unknown = Object.keys(value).filter((key) => !Object.hasOwn(shape, key));
  return new Map(unknown.map((key) => [key.toLowerCase(), key]));
}

function shapeFor(type: z.ZodType, value: Readonly<Record<string, unknown>>): z.ZodRawShape | undefined {
  if (type instanceof z.ZodObject) return type.shape as z.ZodRawShape;
  if (!(type instanceof z.ZodDiscriminatedUnion)) return undefined;
  const key = type.def.discriminator;
  const options = type.options as readonly z.ZodType[];
  for (const option of options) {
    if (!(option instanceof z.ZodObject)) continue;
    const literal = (option.shape as Record<string, z.ZodType>)[key];
    if (literal?.safeParse(value[key]).success) return option.shape as z.ZodRawShape;
  }
  return undefined;
}

function unwrapped(schema: z.ZodType): z.ZodType {
  let type = schema;
  while (type instanceof z.ZodOptional || type instanceof z.ZodDefault || type instanceof z.ZodNullable) {
    type = type.unwrap() as z.ZodType;
  }
  return type;
}

const nullable = new WeakMap<z.ZodType, boolean>();

function takesNull(schema: z.ZodType): boolean {
  let known = nullable.get(schema);
  if (known === undefined) {
    known = schema.safeParse(null).success;
    nullable.set(schema, known);
  }
  return known;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The store keeps every character in text but this one. */
export function holdsNul(value: unknown): boolean {
  return holdsText(value, (text) => text.includes("\u0000"));
}

/** Half a surrogate pair is no character: JSON can write it, UTF-8 and the store cannot. */
function holdsHalfPair(value: unknown): boolean {
  return holdsText(value, (text) => !text.isWellFormed());
}

function holdsText(value: unknown, fits: (text: string) => boolean): boolean {
  if (typeof value === "string") return fits(value);
  if (Array.isArray(value)) return value.some((each) => holdsText(each, fits));
  return isRecord(value) && Object.entries(value).some(([name, each]) => fits(name) || holdsText(each, fits));
}

function isTooDeep(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') {
      do at++;
      while (at < text.length && (text[at] !== '"' || isEscaped(text, at)));
    } else if (character === "{" || character === "[") {
      if (++depth > MAX_DEPTH) return true;
    } else if (character === "}" || character === "]") depth--;
  }
  return false;
}

function isEscaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text[at - 1 - slashes] === "\\") slashes++;
  return slashes % 2 === 1;
}
