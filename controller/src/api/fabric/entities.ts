/** Services, routers and terminators as the Fabric API shows them. */
import type { fabricRouterDetail, fabricServiceDetail, fabricTerminatorDetail, ListQuery } from "@sallyport/api";
import type { z } from "zod";
import type { RouterRow } from "../../model/network/routers.ts";
import type { ServiceRow } from "../../model/network/services.ts";
import type { TerminatorRow } from "../../model/network/terminators.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { SERVICE_FIELDS, TERMINATOR_FIELDS, transitRouterFields } from "../lists/fields.ts";
import { listed } from "../lists/listing.ts";
import { baseWith, type EntityReference, type EntityRow, type Links, linksBelow, refWith } from "../render/base.ts";
import { interfacesOf } from "../render/router.ts";
import { commonOfTerminator, namesOfEnds } from "../render/service.ts";

/** Collections of the Fabric API, and the links of their entities besides `self`. */
const FURTHER = {
  services: ["terminators"],
  routers: ["terminators"],
  terminators: [],
  links: [],
  circuits: [],
} as const;

type FabricCollection = keyof typeof FURTHER;

export function fabricLinks(collection: FabricCollection, id: string): Links {
  return linksBelow(`./${collection}/${id}`, FURTHER[collection]);
}

export function fabricRef(collection: FabricCollection, id: string, name?: string): EntityReference {
  return refWith(fabricLinks(collection, id), collection, id, name);
}

function baseOf(collection: FabricCollection, row: EntityRow) {
  return baseWith(fabricLinks(collection, row.id), row);
}

export function renderService(row: ServiceRow): z.input<typeof fabricServiceDetail> {
  return {
    ...baseOf("services", row),
    maxIdleTimeMillis: Number(row.max_idle_time_millis),
    name: row.name,
    terminatorStrategy: row.terminator_strategy,
  };
}

export function renderRouter(deps: ApiDependencies, row: RouterRow): z.input<typeof fabricRouterDetail> {
  const state = deps.fabric.routerState(row.id);
  return {
    ...baseOf("routers", row),
    connected: state !== undefined,
    cost: row.cost,
    disabled: row.disabled,
    fingerprint: row.fingerprint,
    ...interfacesOf(row),
    ...(state?.linkListeners && { listenerAddresses: [...state.linkListeners] }),
    name: row.name,
    noTraversal: row.no_traversal,
    versionInfo: state?.versionInfo ?? row.report.version,
  };
}

export async function renderTerminators(
  deps: ApiDependencies,
  rows: readonly TerminatorRow[],
): Promise<z.input<typeof fabricTerminatorDetail>[]> {
  const { services, routers } = await namesOfEnds(deps.ctx.store.db, rows);
  return rows.map((row) => ({
    ...baseOf("terminators", row),
    ...commonOfTerminator(deps, row),
    hostId: row.host_id,
    instanceId: row.instance_id,
    router: fabricRef("routers", row.router_id, routers.get(row.router_id)),
    service: fabricRef("services", row.service_id, services.get(row.service_id)),
  }));
}

const { roleAttributes: _roles, configs: _configs, ...FABRIC_SERVICE_FIELDS } = SERVICE_FIELDS;

export function entityLists(deps: ApiDependencies) {
  const { db } = deps.ctx.store;
  return {
    services: (list: ListQuery) =>
      listed(db.selectFrom("service").selectAll(), "service", FABRIC_SERVICE_FIELDS, list, (rows) =>
        rows.map(renderService),
      ),
    routers: (list: ListQuery) => {
      const fields = transitRouterFields(deps.fabric.onlineRouterIds());
      return listed(db.selectFrom("router").selectAll(), "router", fields, list, (rows) =>
        rows.map((row) => renderRouter(deps, row)),
      );
    },
    /** All, or those of a service or a router. */
    terminators: (list: ListQuery, of: { readonly serviceId?: string; readonly routerId?: string } = {}) => {
      let query = db.selectFrom("terminator").selectAll();
      if (of.serviceId !== undefined) query = query.where("terminator.service_id", "=", of.serviceId);
      if (of.routerId !== undefined) query = query.where("terminator.router_id", "=", of.routerId);
      return listed(query, "terminator", TERMINATOR_FIELDS, list, (rows) => renderTerminators(deps, rows));
    },
  };
}
