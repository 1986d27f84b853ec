/** All of an entity, a line for each field. */
import { type Entity, isReference, titleOf } from "../entities/entity.ts";
import { type Names, nameKey } from "../entities/names.ts";
import { FIELDS } from "../kinds/generated/fields.ts";
import type { Field, Kind } from "../kinds/kind.ts";
import { visible, visibleLines } from "../terminal/visible.ts";
import { lineOf, wordsOfPath } from "./cell.ts";
import { measureOf, type TextMeasure } from "./text-width.ts";

/** A list below the entity. */
export interface Related {
  readonly name: string;
  readonly titles: readonly string[];
  readonly hasMore: boolean;
}

/** What is known besides the entity's own answer. */
export interface Surroundings {
  readonly names: Names;
  readonly related: readonly Related[];
}

const INDENT = "  ";

export async function description(kind: Kind, entity: Entity, { names, related }: Surroundings): Promise<string> {
  const fields = new Map((FIELDS[kind.name] ?? []).map((field) => [field.name, field]));
  const { id, name, ...others } = entity;
  const ordered = { ...(name !== undefined && { name }), ...(id !== undefined && { id }), ...others };
  const measure = await measureOf(keysIn(entity));
  // A controller shows services with what the caller himself may do with them.
  const isOwn = (path: string): boolean => kind.name === "service" && path === "permissions";
  const show: Shown = {
    measure,
    value: (path, value) => namedValue(path, isOwn(path) ? ownPermissions(value) : value, fields, names),
    // Keys of maps are whatever their users choose.
    label: (path, key) => {
      if (isOwn(path)) return "Your permissions";
      return hasField(path, fields) ? capital(wordsOfPath(key)) : visible(key);
    },
  };
  const own = linesOf(ordered, "", "", show);
  const lists = related.map(({ name: list, titles, hasMore }) => {
    const text = titles.length === 0 ? "-" : [...titles, ...(hasMore ? ["…"] : [])].join(", ");
    return { label: `${capital(list.replaceAll("-", " "))}:`, text: visible(text) };
  });
  return [...own, ...(lists.length === 0 ? "" : ["\n"]), ...aligned(lists, "", measure)].join("");
}

interface Shown {
  readonly measure: TextMeasure;
  readonly value: (path: string, value: unknown) => unknown;
  readonly label: (path: string, key: string) => string;
}

interface Line {
  readonly label: string;
  readonly text: string;
}

function linesOf(entity: Entity, prefix: string, indent: string, show: Shown): string[] {
  const lines: string[] = [];
  let simple: Line[] = [];
  const flush = (): void => {
    lines.push(...aligned(simple, indent, show.measure));
    simple = [];
  };
  for (const [key, given] of Object.entries(entity)) {
    if (key === "_links" || isSaidElsewhere(key, entity)) continue;
    const path = `${prefix}${key}`;
    const value = show.value(path, given);
    const label = `${show.label(path, key)}:`;
    if (isObject(value) && !isReference(value) && Object.keys(value).length > 0) {
      flush();
      lines.push(`${indent}${label}\n`, ...linesOf(value, `${prefix}${key}.`, indent + INDENT, show));
    } else if (Array.isArray(value) && value.some((each) => isObject(each) && !isReference(each))) {
      flush();
      lines.push(`${indent}${label}\n`, ...value.flatMap((each) => entryLines(each, `${prefix}${key}.`, indent, show)));
    } else if (typeof value === "string" && value.trimEnd().includes("\n")) {
      flush();
      const block = visibleLines(value.trimEnd()).split("\n");
      lines.push(`${indent}${label}\n`, ...block.map((line) => `${indent}${INDENT}${line}\n`));
    } else {
      const text = Array.isArray(value) ? value.map(lineOf).join(", ") || "-" : lineOf(value);
      simple.push({ label, text: visible(text) });
    }
  }
  flush();
  return lines;
}

/** An entry of a list, behind a dash. */
function entryLines(entry: unknown, prefix: string, indent: string, show: Shown): string[] {
  if (!isObject(entry)) return [`${indent}- ${visible(lineOf(entry))}\n`];
  const [first = "\n", ...others] = linesOf(entry, prefix, `${indent}${INDENT}`, show);
  return [`${indent}- ${first.trimStart()}`, ...others];
}

function aligned(lines: readonly Line[], indent: string, { width, padded }: TextMeasure): string[] {
  const widest = Math.max(0, ...lines.map(({ label }) => width(label)));
  return lines.map(({ label, text }) => `${indent}${padded(label, widest)}  ${text}\n`);
}

function hasField(path: string, fields: ReadonlyMap<string, Field>): boolean {
  return fields.has(path) || [...fields.keys()].some((name) => name.startsWith(`${path}.`));
}

/** `authPolicyId` beside the reference `authPolicy`, and `serviceRolesDisplay` beside `serviceRoles`. */
function isSaidElsewhere(key: string, entity: Entity): boolean {
  if (key.endsWith("Id") && isReference(entity[key.slice(0, -"Id".length)])) return true;
  return key.endsWith("Display") && key.slice(0, -"Display".length) in entity;
}

/** An administrator whom no policy lets dial or host has the permission `Invalid`. */
function ownPermissions(value: unknown): unknown {
  return Array.isArray(value) ? value.filter((permission) => permission !== "Invalid") : value;
}

/** The value with names in place of ids. */
function namedValue(path: string, value: unknown, fields: ReadonlyMap<string, Field>, names: Names): unknown {
  const { refersTo, isSelector } = fields.get(path) ?? {};
  if (isReference(value)) {
    const { id = "" } = value;
    const title = titleOf(value as Entity);
    return title === id ? id : `${title} (${id})`;
  }
  if (refersTo === undefined) return value;
  const named = (id: string): string => names.get(nameKey(refersTo, id)) ?? id;
  if (typeof value === "string") return named(value) === value ? value : `${named(value)} (${value})`;
  if (Array.isArray(value)) {
    return value.map((each: unknown) => {
      if (typeof each !== "string") return each;
      if (isSelector !== true) return named(each);
      return each.startsWith("@") ? `@${named(each.slice(1))}` : each;
    });
  }
  return isObject(value) ? Object.fromEntries(Object.entries(value).map(([id, each]) => [named(id), each])) : value;
}

/** The keys of an object at every depth. */
function keysIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => [key, ...keysIn(each)]);
}

function isObject(value: unknown): value is Entity {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
