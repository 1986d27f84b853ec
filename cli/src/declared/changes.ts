/** What differs between an entity and what is declared, field by field. */
import { isDeepStrictEqual } from "node:util";
import { OWNER_TAGS, type Tags } from "@sallyport/resources";
import { isObject, type Json } from "./json.ts";
import { labelsIn } from "./marks.ts";

export interface Change {
  /** Keys from the top of the entity. */
  readonly path: readonly string[];
  /** Undefined for none. */
  readonly before: unknown;
  readonly after: unknown;
}

/** Every field of a new entity. */
export function fieldsOfNew(body: Json): Change[] {
  return changesOf(shown(body), {});
}

/**
 * @param body what is to be changed
 * @param found the same fields as they are
 */
export function changesOf(body: Json, found: Json): Change[] {
  return Object.entries(body).flatMap(([field, after]) => differences([field], own(found, field), after));
}

function differences(path: readonly string[], before: unknown, after: unknown): Change[] {
  if (isSame(before, after)) return [];
  if (!isObject(after) || (before !== undefined && !isObject(before))) return [{ path, before, after }];
  const keys = new Set([...Object.keys(before ?? {}), ...Object.keys(after)]);
  if (keys.size === 0) return [];
  return [...keys].flatMap((key) => differences([...path, key], own(before, key), own(after, key)));
}

function own(object: unknown, key: string): unknown {
  return isObject(object) && Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Servers sort lists of texts, and say nothing in other words. */
function isSame(before: unknown, after: unknown): boolean {
  if (isEmpty(before) && isEmpty(after)) return true;
  const isTexts = (value: unknown): value is string[] =>
    Array.isArray(value) && value.every((each) => typeof each === "string");
  if (isTexts(before) && isTexts(after)) return isDeepStrictEqual(before.toSorted(), after.toSorted());
  return isDeepStrictEqual(before, after);
}

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0);

/** Fields as users know them: without what a kind's plan keeps together, and with the tags that are theirs. */
export function shown({ tags, variant, ...fields }: Json): Json {
  return {
    ...fields,
    ...(isObject(variant) ? variant : {}),
    ...(tags !== undefined && tags !== null && shownTags(tags as Tags)),
  };
}

/** Users cannot declare such a tag. */
const isReserved = (key: string): boolean => key.startsWith("sallyport-");

function shownTags(tags: Tags): Json {
  const labels = tags[OWNER_TAGS.labels];
  const deletionPolicy = tags[OWNER_TAGS.deletionPolicy];
  return {
    tags: Object.fromEntries(Object.entries(tags).filter(([key]) => !isReserved(key))),
    ...(typeof labels === "string" && { labels: labelsIn(labels) }),
    ...(deletionPolicy !== undefined && { deletionPolicy }),
  };
}
