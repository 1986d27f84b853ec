/** Values of fields from texts of the command line. */

import { parseDuration } from "@sallyport/config-file/duration";
import { nearestName } from "@sallyport/config-file/nearest-name";
import { UsageError } from "../errors.ts";
import { typeText } from "../kinds/field-text.ts";
import type { Field, FieldType } from "../kinds/kind.ts";
import { optionName } from "./field-option.ts";

/**
 * The value that the texts of an option say.
 *
 * @param texts in their order, files already read
 * @throws UsageError with what was expected
 */
export async function readValue(field: Field, texts: readonly string[]): Promise<unknown> {
  const { type, isList } = field;
  const [first = ""] = texts;
  if (type === "map") return await readMap(field, texts);
  if (type === "object" || type === "any") return await readDocument(field, onlyOne(field, texts));
  if (isList === true) return texts.flatMap(splitList).map((text) => readScalar(field, type, text));
  onlyOne(field, texts);
  return readScalar(field, type, first);
}

/** `a,b` are two; a comma that belongs to the text stands behind a backslash. */
function splitList(text: string): string[] {
  return text
    .split(/(?<!\\),/)
    .map((part) => part.trim().replaceAll("\\,", ","))
    .filter((part) => part !== "");
}

function onlyOne(field: Field, texts: readonly string[]): string {
  const [first = "", ...more] = texts;
  if (more.length > 0) throw new UsageError(`--${optionName(field)} was given twice`);
  return first;
}

function readScalar(field: Field, type: FieldType, text: string): unknown {
  const { values, minimum = Number.MIN_SAFE_INTEGER, maximum = Number.MAX_SAFE_INTEGER } = field;
  if (values !== undefined) return readChoice(field, values, text);
  switch (type) {
    case "integer": {
      const value = Number(text);
      if (/^-?\d+$/.test(text) && value >= minimum && value <= maximum) return value;
      throw expected(field, text);
    }
    case "number":
      if (text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
      throw expected(field, text);
    case "boolean":
      if (text === "true" || text === "false") return text === "true";
      throw expected(field, text);
    case "time":
      return readTime(field, text);
    default:
      return text;
  }
}

/** Case does not count. */
function readChoice(field: Field, values: readonly string[], text: string): string {
  const found = values.find((value) => value.toLowerCase() === text.toLowerCase());
  if (found !== undefined) return found;
  const nearest = nearestName(text, values);
  throw nearest === undefined ? expected(field, text) : expected(field, text, `; did you mean '${nearest}'?`);
}

/** A time, or a duration from now on, such as `24h`. */
function readTime(field: Field, text: string): string {
  const duration = /^\d/.test(text) && !text.includes("-") ? parseDuration(text) : undefined;
  if (duration !== undefined) return new Date(Date.now() + duration).toISOString();
  if (Number.isNaN(Date.parse(text))) throw expected(field, text, "; write 2026-01-02T03:04:05Z, or 24h from now");
  return new Date(text).toISOString();
}

/** `key=value`, several times or between commas; or JSON of the whole. */
async function readMap(field: Field, texts: readonly string[]): Promise<unknown> {
  if (texts.some((text) => /^\s*\{/.test(text) || text.includes("\n")))
    return await readDocument(field, onlyOne(field, texts));
  const entries = texts.flatMap(splitList).map((text) => {
    const at = text.indexOf("=");
    if (at <= 0) throw expected(field, text);
    return [text.slice(0, at), entryValue(field, text.slice(at + 1))] as const;
  });
  return Object.fromEntries(entries);
}

function entryValue(field: Field, text: string): unknown {
  const { of = "any" } = field;
  if (of !== "any" && of !== "map") return readScalar({ name: field.name, type: of }, of, text);
  if (/^(true|false|null|-?\d+(\.\d+)?|[[{].*)$/s.test(text)) {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      // Text that looks like JSON is text.
    }
  }
  return text;
}

/** JSON or YAML. */
async function readDocument(field: Field, text: string): Promise<unknown> {
  const { parse } = await import("yaml");
  let value: unknown;
  try {
    value = parse(text, { maxAliasCount: 100 });
  } catch (error) {
    const [line = ""] = (error as Error).message.split("\n", 1);
    throw new UsageError(`--${optionName(field)} is neither JSON nor YAML: ${line.replace(/:$/, "")}`);
  }
  const isMap = typeof value === "object" && value !== null && !Array.isArray(value);
  if (field.isList === true ? Array.isArray(value) : field.type === "any" || isMap) return value;
  throw expected(field, text.length > 40 ? `${text.slice(0, 40)}…` : text);
}

function expected(field: Field, found: string, hint = ""): UsageError {
  return new UsageError(`--${optionName(field)}: expected ${typeText(field)}, found '${found}'${hint}`);
}
