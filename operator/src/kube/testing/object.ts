import type { ResourceKind } from "../kinds.ts";
import { isMap, type JsonMap } from "./json.ts";
import { Refusal } from "./status.ts";

/** The metadata, made when missing. */
export function metaOf(object: JsonMap): JsonMap {
  if (!isMap(object.metadata)) object.metadata = {};
  return object.metadata as JsonMap;
}

/** All that `generation` counts. */
export function specOf({ apiVersion: _a, kind: _k, metadata: _m, status: _s, ...rest }: JsonMap): JsonMap {
  return rest;
}

/** Of an intent for a subresource only that part counts. */
export function dropAllBut(intent: JsonMap, field: string): void {
  for (const name of Object.keys(intent))
    if (!["apiVersion", "kind", "metadata", field].includes(name)) delete intent[name];
  const { name = "", namespace = "", resourceVersion } = metaOf(intent);
  intent.metadata = { name, namespace, ...(resourceVersion === undefined ? {} : { resourceVersion }) };
}

/** @throws Refusal 422 when an object that is being deleted would get another finalizer */
export function refuseNewFinalizers(kind: ResourceKind, was: JsonMap, is: JsonMap): void {
  if (was.deletionTimestamp === undefined || !Array.isArray(is.finalizers)) return;
  const known = Array.isArray(was.finalizers) ? was.finalizers : [];
  const added = is.finalizers.filter((finalizer) => !known.includes(finalizer));
  if (added.length === 0) return;
  const message = "Forbidden: no new finalizers can be added if the object is being deleted";
  throw new Refusal(422, "Invalid", `${kind.kind} is invalid: metadata.finalizers: ${message}`, {
    causes: [{ reason: "FieldValueForbidden", message, field: "metadata.finalizers" }],
  });
}
