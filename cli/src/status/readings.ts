/** What `status` asks a controller, one function for each part. */
import type { X509Certificate } from "node:crypto";
import { fetchCaBundle } from "@sallyport/sdk";
import { type Entity, titleOf, valueAt } from "../entities/entity.ts";
import { quoted } from "../entities/filter-text.ts";
import { listEntities } from "../entities/list.ts";
import { kindNamed } from "../kinds/find-kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { MANAGEMENT_API } from "../network/api-paths.ts";
import { presentedCertificate } from "../network/presented-certificate.ts";
import type { Inspected } from "./inspect.ts";
import type { FailedDial, Named } from "./network-status.ts";

/** Of services without hosts, identities that are disabled, and failed dials. */
export const MAX_LISTED = 20;
/** Older failures say little of the network as it is now. */
const RECENT_MS = 15 * 60_000;

/** How many entities a list has. */
export async function countOf(path: string, caller: ApiCaller, filter?: string): Promise<number | undefined> {
  const { meta } = await caller.json({ method: "GET", path, query: { limit: 1, filter } });
  return meta.pagination?.totalCount;
}

/** The certificate of the server. */
export async function leafOf({ controller }: ApiCaller, signal: AbortSignal): Promise<X509Certificate> {
  return (await presentedCertificate(new URL(controller), signal)).leaf;
}

/** The authorities of the network. */
export async function authoritiesOf(
  { controller }: ApiCaller,
  leaf: X509Certificate | undefined,
  signal: AbortSignal,
): Promise<readonly X509Certificate[]> {
  if (leaf === undefined) return [];
  return (await fetchCaBundle(new URL(controller), { leaf }, signal)).certificates;
}

/** Which program answers, such as `Sallyport 0.2.0`. */
export async function versionOf(caller: ApiCaller): Promise<string> {
  const path = `${MANAGEMENT_API}/version`;
  const { headers } = await caller.send({ method: "GET", path });
  const own = headers["sallyport-version"];
  if (typeof own === "string") return `Sallyport ${own}`;
  return `OpenZiti ${String(valueAt((await caller.json({ method: "GET", path })).data, "version") ?? "")}`;
}

export interface Health {
  readonly isHealthy: boolean;
  readonly failing: readonly string[];
}

/** What the health checks of the controller say. OpenZiti's serve them only where they are configured. */
export async function healthOf(caller: ApiCaller): Promise<Health> {
  const { data } = await caller.json({ method: "GET", path: "/health-checks" });
  const checks = (valueAt(data, "checks") ?? []) as readonly Entity[];
  const failing = checks.filter(({ healthy }) => healthy === false);
  return {
    isHealthy: valueAt(data, "healthy") === true,
    failing: failing.map(({ id, err }) => `${String(id)}: ${String(err ?? "fails")}`),
  };
}

interface RawDial {
  readonly identityId: string;
  readonly serviceId: string;
  readonly type: string;
  readonly code: string;
  readonly message: string;
  readonly count: number;
  readonly at: number;
  readonly hasSucceededSince: boolean;
}

/** The newest dials that failed and have not worked since. */
export async function failedDials(
  inspected: Inspected,
  now: number,
  caller: ApiCaller,
): Promise<readonly FailedDial[]> {
  const all = (valueAt(inspected["failed-dials"], "dials") ?? []) as readonly RawDial[];
  const recent = all
    .filter(({ at, hasSucceededSince }) => !hasSucceededSince && now - at < RECENT_MS)
    .slice(0, MAX_LISTED);
  const [identities, services] = await Promise.all([
    namesOf(
      "identity",
      recent.map(({ identityId }) => identityId),
      caller,
    ),
    namesOf(
      "service",
      recent.map(({ serviceId }) => serviceId),
      caller,
    ),
  ]);
  return recent.flatMap(({ identityId, serviceId, type, code, message, count, at }) => {
    const [identity, service] = [identities.get(identityId), services.get(serviceId)];
    // What was deleted since cannot be asked about.
    if (identity === undefined || service === undefined) return [];
    return [{ identity, service, type, code, message, count, at: new Date(at).toISOString() }];
  });
}

async function namesOf(kind: string, ids: readonly string[], caller: ApiCaller): Promise<ReadonlyMap<string, Named>> {
  if (ids.length === 0) return new Map();
  const filter = `id in [${[...new Set(ids)].map(quoted).join(", ")}]`;
  const found = await listEntities(kindNamed(kind), { filter }, caller);
  return new Map(found.map((entity) => [String(entity.id), namedOf(entity)]));
}

export function namedOf(entity: Entity): Named {
  return { id: String(entity.id), name: titleOf(entity) };
}
