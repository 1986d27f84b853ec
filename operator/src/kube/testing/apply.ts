import type { KubeErrorCause } from "../client/errors.ts";
import { copy, isMap, type Json, type JsonMap, same } from "./json.ts";
import type { Shape } from "./schema.ts";
import { Refusal } from "./status.ts";

/** One step of a path, as `managedFields` writes it: `f:spec`, `k:{"type":"Ready"}`, `v:"a"`. */
type Step = string;
/** A path as one text: steps that no text within JSON can join by accident. */
type Path = string;
const JOIN = "\u0000";

/** The fields of one owner: `.` of an item says that the item itself is its own. */
export interface Ownership {
  readonly manager: string;
  readonly operation: "Apply" | "Update";
  readonly subresource?: "status";
  readonly paths: Set<Path>;
  time: string;
}

/** Whom a write is by. */
export interface Writer {
  readonly manager: string;
  readonly operation: "Apply" | "Update";
  readonly subresource?: "status";
}

/** Fields that identify an object belong to nobody. */
const NOBODYS = new Set(
  [
    "apiVersion",
    "kind",
    ...[
      "name",
      "namespace",
      "uid",
      "resourceVersion",
      "generation",
      "creationTimestamp",
      "managedFields",
      "deletionTimestamp",
      "deletionGracePeriodSeconds",
    ].map((name) => `metadata${JOIN}f:${name}`),
  ].map((name) => `f:${name}`),
);

/** Every field of an object with its value. */
function fieldsOf(object: JsonMap, shape: Shape): Map<Path, Json> {
  const fields = new Map<Path, Json>();
  const walk = (value: Json, steps: readonly Step[], names: readonly string[]): void => {
    const path = steps.join(JOIN);
    if (NOBODYS.has(path)) return;
    if (isMap(value) && Object.keys(value).length > 0) {
      for (const [name, inner] of Object.entries(value)) walk(inner, [...steps, `f:${name}`], [...names, name]);
      return;
    }
    if (Array.isArray(value)) {
      const list = shape.listType(names);
      if (list.type === "set") {
        for (const item of value) fields.set([...steps, `v:${JSON.stringify(item)}`].join(JOIN), item);
        return;
      }
      if (list.type === "map") {
        for (const item of value) {
          const step = itemStep(item, list.keys);
          fields.set([...steps, step, "."].join(JOIN), step);
          walk(item, [...steps, step], names);
        }
        return;
      }
    }
    fields.set(path, value);
  };
  walk(object, [], []);
  fields.delete("");
  return fields;
}

function itemStep(item: Json, keys: readonly string[]): Step {
  const named = isMap(item) ? item : {};
  return `k:${JSON.stringify(Object.fromEntries([...keys].sort().map((key) => [key, named[key] ?? null])))}`;
}

/**
 * Server-side apply: `intent` is merged into `live`, fields that the manager owned and leaves out now go when no other manager owns them.
 * @throws Refusal 409 when another manager owns a field with another value and `force` is not given
 */
export function applyIntent(
  live: JsonMap,
  intent: JsonMap,
  writer: Writer,
  owners: Ownership[],
  shape: Shape,
  o: { force: boolean; now: string },
): { object: JsonMap; owners: Ownership[] } {
  const wanted = fieldsOf(intent, shape);
  const present = fieldsOf(live, shape);
  const others = owners.filter((owner) => !isSame(owner, writer)).map(cloneOwner);
  const mine = owners.find((owner) => isSame(owner, writer));
  const causes: KubeErrorCause[] = [];
  for (const [path, value] of wanted) {
    const isChanged = present.has(path) && !same(present.get(path), value);
    for (const owner of others) {
      if (!isChanged || !owner.paths.has(path)) continue;
      if (!o.force) causes.push(conflictCause(path, owner.manager));
      else owner.paths.delete(path);
    }
  }
  if (causes.length > 0) {
    const text = causes.map(({ message, field }) => `${message}: ${field}`).join("; ");
    throw new Refusal(409, "Conflict", `Apply failed with ${causes.length} conflict(s): ${text}`, { causes });
  }
  const object = mergeIntent(live, intent, shape, []);
  for (const path of mine?.paths ?? []) {
    if (wanted.has(path) || others.some(({ paths }) => paths.has(path))) continue;
    // What was an empty map has fields now.
    if ([...wanted.keys()].some((other) => other.startsWith(path + JOIN))) continue;
    removeAt(object, path.split(JOIN), others, wanted);
  }
  const own: Ownership = { ...writer, paths: new Set(wanted.keys()), time: o.now };
  return { object, owners: [...others.filter(({ paths }) => paths.size > 0), own] };
}

/** A write of another kind: what it changed belongs to its manager now, what it removed to nobody. */
export function noteUpdate(
  before: JsonMap,
  after: JsonMap,
  writer: Writer,
  owners: Ownership[],
  shape: Shape,
  now: string,
): Ownership[] {
  const was = fieldsOf(before, shape);
  const is = fieldsOf(after, shape);
  const changed = new Set<Path>();
  for (const [path, value] of is) if (!was.has(path) || !same(was.get(path), value)) changed.add(path);
  const result = owners.map(cloneOwner);
  for (const owner of result) {
    for (const path of owner.paths) {
      if (!is.has(path) || (changed.has(path) && !isSame(owner, writer))) owner.paths.delete(path);
    }
  }
  let own = result.find((owner) => isSame(owner, writer));
  if (own === undefined && changed.size > 0) {
    own = { ...writer, paths: new Set(), time: now };
    result.push(own);
  }
  for (const path of changed) own?.paths.add(path);
  return result.filter(({ paths }) => paths.size > 0);
}

/** As objects show it. */
export function managedFields(owners: readonly Ownership[], apiVersion: string): Json[] {
  return owners.map(({ manager, operation, subresource, paths, time }) => ({
    manager,
    operation,
    apiVersion,
    time,
    fieldsType: "FieldsV1",
    fieldsV1: nested(paths),
    ...(subresource === undefined ? {} : { subresource }),
  }));
}

function nested(paths: Iterable<Path>): JsonMap {
  const root: JsonMap = {};
  for (const path of paths) {
    let at = root;
    for (const step of path.split(JOIN)) {
      const next = at[step];
      if (isMap(next)) at = next;
      else {
        const made: JsonMap = {};
        at[step] = made;
        at = made;
      }
    }
  }
  return root;
}

function isSame(owner: Ownership, writer: Writer): boolean {
  return (
    owner.manager === writer.manager && owner.operation === writer.operation && owner.subresource === writer.subresource
  );
}

function cloneOwner(owner: Ownership): Ownership {
  return { ...owner, paths: new Set(owner.paths) };
}

function conflictCause(path: Path, manager: string): KubeErrorCause {
  const field = path
    .split(JOIN)
    .map((step) => (step.startsWith("f:") ? `.${step.slice(2)}` : `[${step.slice(2)}]`))
    .join("");
  return { reason: "FieldManagerConflict", message: `conflict with "${manager}"`, field };
}

function mergeIntent(live: JsonMap, intent: JsonMap, shape: Shape, names: readonly string[]): JsonMap {
  const result: JsonMap = copy(live);
  for (const [name, value] of Object.entries(intent)) {
    result[name] = mergeValue(result[name], value, shape, [...names, name]);
  }
  return result;
}

function mergeValue(live: Json | undefined, intent: Json, shape: Shape, names: readonly string[]): Json {
  if (isMap(intent) && isMap(live)) return mergeIntent(live, intent, shape, names);
  if (!Array.isArray(intent) || !Array.isArray(live)) return copy(intent);
  const list = shape.listType(names);
  if (list.type === "atomic") return copy(intent);
  if (list.type === "set") return [...live, ...intent.filter((item) => !live.some((known) => same(known, item)))];
  const result = copy(live);
  for (const item of intent) {
    const step = itemStep(item, list.keys);
    const at = result.findIndex((known) => itemStep(known, list.keys) === step);
    if (at < 0) result.push(copy(item));
    else result[at] = mergeValue(result[at], item, shape, names);
  }
  return result;
}

/** Removes a field; maps and items that others own a part of stay. */
function removeAt(
  object: JsonMap,
  steps: readonly Step[],
  others: readonly Ownership[],
  wanted: ReadonlyMap<Path, Json>,
): void {
  const parents: { holder: JsonMap | Json[]; key: string | number; path: Path }[] = [];
  let at: Json = object;
  for (const [i, step] of steps.entries()) {
    if (step === ".") break;
    const key = keyIn(at, step);
    if (key === undefined) return;
    parents.push({ holder: at as JsonMap | Json[], key, path: steps.slice(0, i).join(JOIN) });
    at = (at as Record<string | number, Json>)[key] as Json;
  }
  if (steps.at(-1) === ".") {
    const prefix = steps.slice(0, -1).join(JOIN);
    if (others.some(({ paths }) => [...paths].some((path) => path.startsWith(prefix + JOIN)))) return;
  }
  for (const { holder, key, path } of parents.reverse()) {
    if (Array.isArray(holder)) holder.splice(Number(key), 1);
    else delete holder[key];
    // A map that only this field made goes with it.
    if (Array.isArray(holder) || Object.keys(holder).length > 0 || holder === object || wanted.has(path)) return;
  }
}

function keyIn(at: Json, step: Step): string | number | undefined {
  const name = step.slice(2);
  if (step.startsWith("f:")) return isMap(at) && name in at ? name : undefined;
  if (!Array.isArray(at)) return undefined;
  const index = step.startsWith("v:")
    ? at.findIndex((item) => JSON.stringify(item) === name)
    : at.findIndex((item) => isMap(item) && matchesKeys(item, name));
  return index < 0 ? undefined : index;
}

function matchesKeys(item: JsonMap, keys: string): boolean {
  const wanted = JSON.parse(keys) as JsonMap;
  return Object.entries(wanted).every(([name, value]) => same(item[name] ?? null, value));
}
