import {
  type configDetail,
  type configTypeDetail,
  type ListQuery,
  type ListResult,
  NO_LIMIT,
  orNull,
  type serviceDetail,
  type terminatorDetail,
} from "@sallyport/api";
import type { Permission } from "@sallyport/wire";
import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { z } from "zod";
import type { Db } from "../../model/context.ts";
import { namesOf } from "../../model/entity.ts";
import { turn } from "../../model/event-loop.ts";
import type { ConfigRow, ConfigTypeRow } from "../../model/network/configs.ts";
import { configData, configsOfServices } from "../../model/network/service-configs.ts";
import type { ServiceRow } from "../../model/network/services.ts";
import type { TerminatorRow } from "../../model/network/terminators.ts";
import { type Grant, permissionsOn } from "../../model/policy/access.ts";
import { type EntityFields, fieldNames } from "../../store/filter/filter-sql.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { SERVICE_FIELDS } from "../lists/fields.ts";
import { listed } from "../lists/listing.ts";
import { baseOf, ref } from "./base.ts";
import type { PostureLens } from "./posture.ts";

type ServiceDetail = z.input<typeof serviceDetail>;

/** The identity that services are shown to. */
export interface Viewer {
  readonly identityId: string;
  readonly grants: readonly Grant[];
  /** The permissions that the grants give on a service, where they are known already. */
  readonly permissionsOn?: (serviceId: string) => readonly Permission[];
  /** Ids or names of config types whose configs are shown, or `all`. */
  readonly configTypes: readonly string[];
  /** Without it, no policy has posture checks. */
  readonly postureQueries?: PostureLens | undefined;
}

/** Longer pages wait for a turn before they are rendered. */
const SHORT_PAGE = 20;

/** Services with their configs and what the viewer may do with them. */
export async function renderServices(
  deps: ApiDependencies,
  rows: readonly ServiceRow[],
  viewer: Viewer,
): Promise<ServiceDetail[]> {
  if (rows.length === 0) return [];
  const ids = rows.map((row) => row.id);
  const { identityId, configTypes: types } = viewer;
  const configs = await configsOfServices(deps.ctx.store.db, ids, { identityId, types });
  if (rows.length > SHORT_PAGE) await turn();
  const byService = Map.groupBy(configs, (config) => config.service_id);
  return rows.map((row) => {
    const own = byService.get(row.id) ?? [];
    const permissions = [...(viewer.permissionsOn?.(row.id) ?? permissionsOn(viewer.grants, row))];
    return {
      ...baseOf("services", row),
      config: configData(own),
      configs: orNull(own.filter((c) => !c.is_override).map((c) => c.config_id)),
      encryptionRequired: row.encryption_required,
      maxIdleTimeMillis: Number(row.max_idle_time_millis),
      name: row.name,
      permissions: permissions.length > 0 ? permissions : ["Invalid"],
      postureQueries:
        viewer.postureQueries?.(row.id) ??
        permissions.map((type) => ({
          isPassing: true,
          policyId: `dummy ${type.toLowerCase()} policy: no posture checks defined`,
          policyType: type,
          postureQueries: [],
        })),
      roleAttributes: orNull(row.attrs),
      terminatorStrategy: row.terminator_strategy,
    };
  });
}

export async function renderConfigs(
  deps: ApiDependencies,
  rows: readonly ConfigRow[],
): Promise<z.input<typeof configDetail>[]> {
  const typeIds = rows.map((row) => row.config_type_id);
  const types = await namesOf(deps.ctx.store.db, "config_type", typeIds);
  return rows.map((row) => ({
    ...baseOf("configs", row),
    configType: ref("config-types", row.config_type_id, types.get(row.config_type_id)),
    configTypeId: row.config_type_id,
    data: row.data,
    name: row.name,
  }));
}

export function renderConfigType(row: ConfigTypeRow): z.input<typeof configTypeDetail> {
  return { ...baseOf("config-types", row), name: row.name, schema: row.schema, target: row.target };
}

/** The names of the services and routers of terminators, by id. */
export async function namesOfEnds(db: Db, rows: readonly TerminatorRow[]) {
  const serviceIds = rows.map((row) => row.service_id);
  const routerIds = rows.map((row) => row.router_id);
  const [services, routers] = await Promise.all([namesOf(db, "service", serviceIds), namesOf(db, "router", routerIds)]);
  return { services, routers };
}

/** The properties of a terminator that the Management and Fabric API share. */
export function commonOfTerminator(deps: ApiDependencies, row: TerminatorRow) {
  return {
    address: row.address,
    binding: row.binding,
    cost: row.cost,
    dynamicCost: deps.fabric.dynamicCost(row.id),
    precedence: row.precedence,
    routerId: row.router_id,
    serviceId: row.service_id,
  };
}

export async function renderTerminators(
  deps: ApiDependencies,
  rows: readonly TerminatorRow[],
): Promise<z.input<typeof terminatorDetail>[]> {
  const { services, routers } = await namesOfEnds(deps.ctx.store.db, rows);
  return rows.map((row) => ({
    ...baseOf("terminators", row),
    ...commonOfTerminator(deps, row),
    identity: row.instance_id,
    router: ref("transit-routers", row.router_id, routers.get(row.router_id)),
    service: ref("services", row.service_id, services.get(row.service_id)),
  }));
}

/**
 * A page of the services that an identity may use, with one permission or with any. Without filter and sort, the ids of the page and the total come from
 * memory, and only the page's rows from the database. Otherwise the database selects among the granted ids.
 */
export async function listGrantedServices(
  deps: ApiDependencies,
  identity: { readonly id: string; readonly attrs: readonly string[] },
  viewer: Viewer,
  list: ListQuery,
  o: {
    readonly permission?: "Dial" | "Bind" | undefined;
    readonly condition?: RawBuilder<SqlBool> | undefined;
    readonly fields?: EntityFields;
  } = {},
): Promise<ListResult<ServiceDetail>> {
  const { db } = deps.ctx.store;
  const { fields = SERVICE_FIELDS } = o;
  const granted = (await deps.model.policy.current()).grantedTo(identity);
  if (list.filter === undefined && list.sort.length === 0 && o.condition === undefined) {
    const ids = granted.ids(o.permission, list.offset, list.limit === NO_LIMIT ? undefined : list.limit);
    const totalCount = granted.count(o.permission);
    const permissions = new Map(ids.map((id) => [id, granted.permissionsOn(id)]));
    const rows = await deps.model.services.byIds(db, ids);
    const data = await renderServices(deps, rows, { ...viewer, permissionsOn: (id) => permissions.get(id) ?? [] });
    return { data, totalCount, filterableFields: fieldNames(fields) };
  }
  const among = granted.ids(o.permission);
  let query = db.selectFrom("service").selectAll().where(sql<SqlBool>`service.id = ANY (${among}::text[])`);
  if (o.condition !== undefined) query = query.where(o.condition);
  return listed(query, "service", fields, list, (rows) => renderServices(deps, rows, viewer));
}
