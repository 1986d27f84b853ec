import {
  type configDetail,
  type configTypeDetail,
  orNull,
  type serviceDetail,
  type terminatorDetail,
} from "@sallyport/api";
import type { Permission } from "@sallyport/wire";
import type { z } from "zod";
import type { Db } from "../../model/context.ts";
import { namesOf } from "../../model/entity.ts";
import { turn } from "../../model/event-loop.ts";
import type { ConfigRow, ConfigTypeRow } from "../../model/network/configs.ts";
import { configData, configsOfServices } from "../../model/network/service-configs.ts";
import type { ServiceRow } from "../../model/network/services.ts";
import type { TerminatorRow } from "../../model/network/terminators.ts";
import { type Grant, permissionsOn } from "../../model/policy/access.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { baseOf } from "./base.ts";
import { ref } from "./links.ts";
import type { PostureLens } from "./posture.ts";

export type ServiceDetail = z.input<typeof serviceDetail>;

/** The identity that services are shown to. */
export interface Viewer {
  readonly identityId: string;
  readonly grants: readonly Grant[];
  /** What the grants come to for a service, where it is known already. */
  readonly permissionsOn?: (serviceId: string) => readonly Permission[];
  /** Ids or names of config types whose configs are shown, or `all`. */
  readonly configTypes: readonly string[];
  /** What policies ask of the devices of the viewer before the service may be used; without it nothing is known to be asked. */
  readonly postureQueries?: PostureLens | undefined;
}

/** A page of so many rows is written out without waiting for a turn of its own. */
const SHORT_PAGE = 20;

/** Services with their configs and what the viewer may do with them. */
export async function renderServices(
  deps: ApiDependencies,
  rows: readonly ServiceRow[],
  viewer: Viewer,
): Promise<ServiceDetail[]> {
  if (rows.length === 0) return [];
  const ids = rows.map((row) => row.id);
  const configs = await configsOfServices(deps.ctx.store.db, ids, {
    identityId: viewer.identityId,
    types: viewer.configTypes,
  });
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
  const types = await namesOf(
    deps.ctx.store.db,
    "config_type",
    rows.map((row) => row.config_type_id),
  );
  return rows.map((row) => ({
    ...baseOf("configs", row),
    configType: ref("config-types", row.config_type_id, types.get(row.config_type_id)),
    configTypeId: row.config_type_id,
    data: row.data,
    name: row.name,
  }));
}

export function renderConfigType(row: ConfigTypeRow): z.input<typeof configTypeDetail> {
  return { ...baseOf("config-types", row), name: row.name, schema: row.schema };
}

/** The names of the services and routers of terminators, by id. */
export async function namesOfEnds(db: Db, rows: readonly TerminatorRow[]) {
  const [services, routers] = await Promise.all([
    namesOf(
      db,
      "service",
      rows.map((row) => row.service_id),
    ),
    namesOf(
      db,
      "router",
      rows.map((row) => row.router_id),
    ),
  ]);
  return { services, routers };
}

/** What both APIs show of a terminator, but for references in the way of each. */
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
