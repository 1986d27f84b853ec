/** Creates, changes and deletes entities. */
import { ApiError } from "@sallyport/api/client";
import { FIELDS } from "../kinds/generated/fields.ts";
import type { Kind } from "../kinds/kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { type Entity, isReference, valueAt } from "./entity.ts";

/** Values by dotted names of fields. */
export type Values = ReadonlyMap<string, unknown>;

/** Creates an entity and answers its id. @throws CommandError, ApiError */
export async function createEntity(kind: Kind, values: Values, caller: ApiCaller): Promise<string> {
  const { data } = await caller.json({ method: "POST", path: kind.path, body: bodyOf(values) });
  return String((data as Entity).id);
}

/** One entity as it is now. @throws CommandError, ApiError 404 when it is gone */
export async function readEntity(kind: Kind, id: string, caller: ApiCaller): Promise<Entity> {
  return (await readVersion(kind, id, caller)).entity;
}

/** As {@link readEntity}, with its version for {@link changeEntity}, if the controller names one. */
export async function readVersion(
  kind: Kind,
  id: string,
  caller: ApiCaller,
): Promise<{ readonly entity: Entity; readonly etag: string | undefined }> {
  const { data, etag } = await caller.json({ method: "GET", path: pathOf(kind, id), headers: { prefer: "etag" } });
  return { entity: data as Entity, etag };
}

/** A change was refused because the entity no longer has the version for which it was asked. */
export function isOutdated(error: unknown): boolean {
  return error instanceof ApiError && error.status === 412;
}

/**
 * Changes fields of an entity; all others stay as they are.
 *
 * @param entity as it was read
 * @param etag its version: another one is not changed
 * @throws CommandError, ApiError, {@link isOutdated} when it has another version
 */
export async function changeEntity(
  kind: Kind,
  entity: Entity,
  values: Values,
  caller: ApiCaller,
  etag?: string,
): Promise<void> {
  const path = pathOf(kind, String(entity.id));
  // Checks of different types have different fields, and the API wants to know the type.
  const type =
    typeof entity.typeId === "string" && kind.name === "posture-check" ? [["typeId", entity.typeId] as const] : [];
  const body = new Map([...type, ...values]);
  // OpenZiti's clients send `{}` in every change, so it changes nothing.
  const isEmptied = isEmptyMap(values.get("tags")) && !isEmptyMap(entity.tags ?? {});
  const isReplaced = isEmptied && kind.actions.includes("replace");
  // A replacement writes all fields, also those that another administrator has changed: none may have since.
  const seen = isReplaced && etag === undefined ? await readVersion(kind, String(entity.id), caller) : { entity, etag };
  const change = isReplaced
    ? { method: "PUT", body: bodyOf(new Map([...changeableValues(kind, seen.entity), ...body])) }
    : { method: "PATCH", body: bodyOf(body) };
  await caller.json({ ...change, path, ...(seen.etag !== undefined && { headers: { "if-match": seen.etag } }) });
}

/** @throws CommandError, ApiError */
export async function deleteEntity(kind: Kind, id: string, caller: ApiCaller): Promise<void> {
  await caller.json({ method: "DELETE", path: pathOf(kind, id) });
}

/** The fields that a change may take, as they are now, with ids. What the answer does not have is left out. */
export function changeableValues(kind: Kind, entity: Entity): Map<string, unknown> {
  const { typeId } = entity;
  const values = new Map<string, unknown>();
  for (const { name, isChangeable, isSecret, only, isList } of FIELDS[kind.name] ?? []) {
    if (isChangeable !== true || isSecret === true) continue;
    if (only !== undefined && !only.includes(String(typeId))) continue;
    const value = valueAt(entity, name);
    if (value === undefined) continue;
    values.set(name, isReference(value) ? value.id : value === null && isList === true ? [] : value);
  }
  return values;
}

function pathOf(kind: Kind, id: string): string {
  return `${kind.path}/${encodeURIComponent(id)}`;
}

function bodyOf(values: Values): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const [path, value] of values) {
    const parts = path.split(".");
    const last = parts.pop() ?? "";
    let place = body;
    for (const part of parts) {
      place[part] ??= {};
      place = place[part] as Record<string, unknown>;
    }
    place[last] = value;
  }
  return body;
}

function isEmptyMap(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}
