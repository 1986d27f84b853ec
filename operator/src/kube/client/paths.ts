import type { ObjectRef, ResourceKind } from "../kinds.ts";

/** `/api/v1/namespaces/edge/secrets`; without a namespace all objects of the kind. */
export function collectionPath({ group, version, plural, namespaced }: ResourceKind, namespace?: string): string {
  const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  const place = namespaced && namespace !== undefined ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${place}/${plural}`;
}

/** @throws TypeError for a namespaced kind without a namespace, or a name that is none */
export function objectPath({ kind, namespace, name }: ObjectRef, subresource?: "status" | "token"): string {
  if (kind.namespaced && !namespace) throw new TypeError(`${kind.kind} ${name} needs a namespace`);
  if (name === "" || name === "." || name === "..") throw new TypeError(`"${name}" is no name of a ${kind.kind}`);
  const path = `${collectionPath(kind, namespace)}/${encodeURIComponent(name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** `?a=1&b=2` of what is given; nothing when nothing is. */
export function query(parameters: Readonly<Record<string, string | number | boolean | undefined>>): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) given.set(name, String(value));
  const text = given.toString();
  return text === "" ? "" : `?${text}`;
}
