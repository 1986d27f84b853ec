/** Values of entities in cells and lines. */
import { type Entity, isReference, titleOf, valueAt } from "../entities/entity.ts";

/** How an unset time is written where the key must be there. */
const NO_TIME = "0001-01-01T00:00:00.000Z";
const NOTHING = "-";

/** A field of an entity in one line; names take the place of ids where the answer has them. */
export function cell(entity: Entity, path: string): string {
  const names = valueAt(entity, `${path}Display`);
  if (Array.isArray(names)) return listText(names.map((each: Entity) => String(each.name ?? each.role ?? "")));
  return lineOf(valueAt(entity, path));
}

/** Any value in one line. */
export function lineOf(value: unknown): string {
  if (value === undefined || value === null || value === "" || value === NO_TIME) return NOTHING;
  if (typeof value === "string") return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? timeText(value) : value;
  if (typeof value !== "object") return String(value);
  if (Array.isArray(value)) return listText(value.map(lineOf));
  if (isReference(value)) return titleOf(value as Entity) || NOTHING;
  const entries = Object.entries(value).filter(([key]) => key !== "_links");
  return listText(entries.map(([key, each]) => `${key}=${lineOf(each)}`));
}

function listText(parts: readonly string[]): string {
  return parts.length === 0 ? NOTHING : parts.join(",");
}

/** `2026-01-02T03:04:05.678Z` is `2026-01-02 03:04:05Z`. */
export function timeText(time: string): string {
  return time.replace("T", " ").replace(/\.\d+Z$/, "Z");
}

/** A dotted path as words: `sdkInfo.appVersion` is `sdk info app version`. */
export function wordsOfPath(path: string): string {
  return path
    .replaceAll(".", " ")
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase();
}
