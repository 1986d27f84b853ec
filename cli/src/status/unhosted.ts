/** Services that no host offers, and who may. */
import { ApiError } from "@sallyport/api/client";
import { mapLimit } from "@sallyport/async";
import { type Entity, valueAt } from "../entities/entity.ts";
import { listEntities, listPath } from "../entities/list.ts";
import { kindNamed } from "../kinds/find-kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { MANAGEMENT_API } from "../network/api-paths.ts";
import type { UnhostedService } from "./network-status.ts";
import { countOf, MAX_LISTED, namedOf } from "./readings.ts";

const AT_ONCE = 4;
/** A policy may select all services, and none be hosted. */
const MAX_OF_POLICY = 100;
const FILTER = "isEmpty(terminators)";

export interface Unhosted {
  /** First all that an identity may host, up to a bound for each policy; then some of the others. */
  readonly services: readonly UnhostedService[];
  readonly total: number | undefined;
}

/** Lists of services, without those that have a terminator. */
interface Lists {
  readonly total: number;
  readonly first: readonly Entity[];
  of(path: string): Promise<readonly Entity[]>;
}

export async function unhostedServices(caller: ApiCaller): Promise<Unhosted> {
  const { total, first, of } = await listsByFilter(caller);
  if (total === 0) return { services: [], total };
  const policies = await listEntities(kindNamed("service-policy"), {}, caller);
  const hostable = new Map<unknown, UnhostedService>();
  await mapLimit(
    policies.filter(({ type }) => type === "Bind"),
    AT_ONCE,
    async ({ id }) => {
      const path = `${MANAGEMENT_API}/service-policies/${String(id)}`;
      const found = (await of(`${path}/services`)).filter((service) => !hostable.has(service.id));
      if (found.length === 0) return;
      const [host] = await listPath(`${path}/identities`, kindNamed("identity"), { limit: 1 }, caller);
      if (host === undefined) return;
      for (const service of found) hostable.set(service.id, { ...namedOf(service), host: namedOf(host) });
    },
  );
  const others = first.filter(({ id }) => !hostable.has(id)).map(namedOf);
  return { services: [...hostable.values(), ...others], total };
}

async function listsByFilter(caller: ApiCaller): Promise<Lists> {
  const kind = kindNamed("service");
  try {
    return {
      total: (await countOf(kind.path, caller, FILTER)) ?? 0,
      first: await listEntities(kind, { filter: FILTER, limit: MAX_LISTED }, caller),
      of: (path) => listPath(path, kind, { filter: FILTER, limit: MAX_OF_POLICY }, caller),
    };
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "INVALID_FILTER") throw error;
    return await listsByTerminators(caller);
  }
}

/** OpenZiti's controllers know no such filter. */
async function listsByTerminators(caller: ApiCaller): Promise<Lists> {
  const kind = kindNamed("service");
  const terminators = await listEntities(kindNamed("terminator"), {}, caller);
  const hosted = new Set(terminators.map((each) => valueAt(each, "service.id") ?? each.serviceId));
  const unhosted = (services: readonly Entity[]) => services.filter(({ id }) => !hosted.has(id));
  const all = unhosted(await listEntities(kind, {}, caller));
  return {
    total: all.length,
    first: all.slice(0, MAX_LISTED),
    of: async (path) => unhosted(await listPath(path, kind, {}, caller)).slice(0, MAX_OF_POLICY),
  };
}
