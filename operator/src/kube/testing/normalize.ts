import type { ResourceKind } from "../kinds.ts";
import { isMap, type JsonMap } from "./json.ts";
import { Refusal } from "./status.ts";

const MICRO_TIMES: Readonly<Record<string, readonly (readonly [holder: string, field: string])[]>> = {
  Lease: [
    ["spec", "acquireTime"],
    ["spec", "renewTime"],
  ],
  Event: [
    ["", "eventTime"],
    ["series", "lastObservedTime"],
  ],
};

/** What the server itself changes or refuses in objects of its own kinds. */
export function normalize({ kind }: ResourceKind, object: JsonMap, live?: JsonMap): void {
  if (kind === "Secret") object.type ??= "Opaque";
  if (kind === "Service" && isMap(object.spec)) {
    const before = isMap(live?.spec) ? live.spec.clusterIP : undefined;
    object.spec.type ??= "ClusterIP";
    object.spec.clusterIP ??=
      before ?? `10.96.${Math.floor(Math.random() * 250)}.${1 + Math.floor(Math.random() * 250)}`;
  }
  for (const [holder, field] of MICRO_TIMES[kind] ?? []) {
    const inner = holder === "" ? object : object[holder];
    const value = isMap(inner) ? inner[field] : undefined;
    if (value === undefined || value === null || /\.\d{6}(Z|[+-]\d\d:\d\d)$/.test(String(value))) continue;
    const message = `parsing time ${JSON.stringify(value)} as "2006-01-02T15:04:05.000000Z07:00": cannot parse`;
    throw new Refusal(400, "BadRequest", `${kind} in version cannot be handled: ${message}`);
  }
}
