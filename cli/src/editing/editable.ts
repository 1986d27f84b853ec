/** Entities as text that a user edits: the fields that a change takes, with names in place of ids. */

import { isDeepStrictEqual } from "node:util";
import { nearestName } from "@sallyport/config-file/nearest-name";
import type { Entity } from "../entities/entity.ts";
import { type Names, nameKey } from "../entities/names.ts";
import { changeableValues } from "../entities/write.ts";
import { CommandError } from "../errors.ts";
import { typeText } from "../kinds/field-text.ts";
import { FIELDS } from "../kinds/generated/fields.ts";
import type { Field, Kind } from "../kinds/kind.ts";

/** Values by dotted names of fields, with names of entities in place of ids. */
export type Editable = ReadonlyMap<string, unknown>;

export function editableOf(kind: Kind, entity: Entity, names: Names): Editable {
  const fields = fieldsOf(kind);
  return new Map(
    [...changeableValues(kind, entity)].map(([name, value]) => [name, withNames(fields.get(name), value, names)]),
  );
}

function withNames(field: Field | undefined, value: unknown, names: Names): unknown {
  const { refersTo, isSelector } = field ?? {};
  if (refersTo === undefined) return value;
  const named = (id: string): string => names.get(nameKey(refersTo, id)) ?? id;
  if (typeof value === "string") return named(value);
  if (Array.isArray(value)) {
    return value.map((each: unknown) => {
      if (typeof each !== "string") return each;
      if (isSelector !== true) return named(each);
      return each.startsWith("@") ? `@${named(each.slice(1))}` : each;
    });
  }
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([id, each]) => [named(id), each]));
}

/** YAML with a comment behind the fields that have a note. */
export async function editableText(
  editable: Editable,
  head: readonly string[],
  notes: ReadonlyMap<string, string> = new Map(),
): Promise<string> {
  const { Document, isScalar, isNode } = await import("yaml");
  const document = new Document({});
  for (const [name, value] of editable) document.setIn(name.split("."), document.createNode(value));
  for (const [name, note] of notes) {
    const node = document.getIn(name.split("."), true);
    if (!isNode(node)) continue;
    if (isScalar(node)) node.comment = ` ${note}`;
    else node.commentBefore = ` ${note}`;
  }
  document.commentBefore = head.map((line) => ` ${line}`).join("\n");
  return document.toString({ lineWidth: 0 });
}

/** What an edited text says. @throws CommandError with line and column of what is wrong */
export async function editedValues(kind: Kind, text: string, before: Editable): Promise<Editable> {
  const { LineCounter, parseDocument } = await import("yaml");
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, prettyErrors: false });
  const at = (offset: number): string => {
    const { line, col } = lineCounter.linePos(offset);
    return `line ${line}, column ${col}`;
  };
  const [error] = document.errors;
  if (error !== undefined) throw new CommandError(`${at(error.pos[0])}: ${error.message}`);
  const content: unknown = document.toJS({ maxAliasCount: 100 });
  if (content !== null && (typeof content !== "object" || Array.isArray(content)))
    throw new CommandError("line 1: expected fields with values");
  const fields = fieldsOf(kind);
  const values = new Map<string, unknown>();
  collect(content ?? {}, []);
  // A field that was removed has the value that it would have without being set.
  for (const [name, value] of before) {
    if (!values.has(name)) values.set(name, emptyOf(fields.get(name), value));
  }
  return values;

  function collect(object: object, path: readonly string[]): void {
    for (const [key, value] of Object.entries(object)) {
      const here = [...path, key];
      const name = here.join(".");
      const field = fields.get(name);
      const isAbove = [...fields.keys()].some((each) => each.startsWith(`${name}.`));
      if (isAbove && typeof value === "object" && value !== null && !Array.isArray(value)) collect(value, here);
      else if (field?.isChangeable === true) values.set(name, checked(field, value, here));
      else throw unknownField(name, here, field !== undefined);
    }
  }

  function checked(field: Field, value: unknown, path: readonly string[]): unknown {
    if (value === null) return emptyOf(field, before.get(field.name));
    const isRight = field.isList === true ? Array.isArray(value) : fits(field, value);
    if (isRight) return value;
    throw new CommandError(
      `${placeOf(path)}: ${field.name}: expected ${typeText(field)}, found ${JSON.stringify(value)}`,
    );
  }

  function unknownField(name: string, path: readonly string[], isKnown: boolean): CommandError {
    const nearest = nearestName(
      name,
      [...fields.values()].flatMap((field) => (field.isChangeable === true ? [field.name] : [])),
    );
    const what = isKnown ? `${name} cannot be changed` : `${kind.name} has no field '${name}'`;
    const hint = isKnown || nearest === undefined ? "" : `: did you mean '${nearest}'?`;
    return new CommandError(`${placeOf(path)}: ${what}${hint}`);
  }

  function placeOf(path: readonly string[]): string {
    const [last = ""] = path.slice(-1);
    const parent = document.getIn(path.slice(0, -1), true) as {
      items?: { key?: { value?: unknown; range?: number[] } }[];
    };
    const pair = parent?.items?.find(({ key }) => key?.value === last);
    return at(pair?.key?.range?.[0] ?? 0);
  }
}

/** The fields of which the values differ. */
export function differences(before: Editable, after: Editable): Map<string, unknown> {
  return new Map([...after].filter(([name, value]) => !isDeepStrictEqual(before.get(name), value)));
}

function fieldsOf(kind: Kind): ReadonlyMap<string, Field> {
  return new Map((FIELDS[kind.name] ?? []).map((field) => [field.name, field]));
}

function fits({ type, values }: Field, value: unknown): boolean {
  if (values !== undefined) return values.some((each) => each === value);
  switch (type) {
    case "integer":
      return Number.isInteger(value);
    case "number":
    case "boolean":
      return typeof value === type;
    case "map":
    case "object":
      return typeof value === "object" && !Array.isArray(value);
    case "any":
      return true;
    default:
      return typeof value === "string";
  }
}

function emptyOf(field: Field | undefined, before: unknown): unknown {
  if (field?.standard !== undefined) return field.standard;
  if (field?.isList === true || Array.isArray(before)) return [];
  if (typeof before === "object" && before !== null) return {};
  return typeof before === "boolean" ? false : typeof before === "number" ? 0 : before === null ? null : "";
}
