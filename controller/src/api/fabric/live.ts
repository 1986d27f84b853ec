/** Links and circuits as the fabric has them now; the store has neither. */
import {
  apiTime,
  type circuitDetail,
  type ListQuery,
  type ListResult,
  type linkDetail,
  type MemoryFields,
  selectPage,
} from "@sallyport/api";
import type { z } from "zod";
import type { CircuitState } from "../../fabric/circuits/circuit.ts";
import type { LinkState } from "../../fabric/links/link-table.ts";
import { namesOf } from "../../model/entity.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { fabricLinks, fabricRef } from "./entities.ts";

type LinkDetail = z.input<typeof linkDetail>;
type CircuitDetail = z.input<typeof circuitDetail>;

const LINK_STATES: Readonly<Record<LinkState["state"], string>> = { connected: "Connected", failed: "Failed" };

const LINK_FIELDS: MemoryFields<LinkState> = {
  id: { type: "string", read: (link) => link.id },
  protocol: { type: "string", read: (link) => link.protocol },
  dialAddress: { type: "string", read: (link) => link.dialAddress },
  sourceRouter: { type: "string", read: (link) => link.source },
  destRouter: { type: "string", read: (link) => link.destination },
  cost: { type: "number", read: (link) => link.cost },
  staticCost: { type: "number", read: (link) => link.staticCost },
  destLatency: { type: "number", read: (link) => link.destinationLatencyNs },
  sourceLatency: { type: "number", read: (link) => link.sourceLatencyNs },
  state: { type: "string", read: (link) => LINK_STATES[link.state] },
  iteration: { type: "number", read: (link) => link.iteration },
  down: { type: "boolean", read: (link) => link.isDown },
};

export const CIRCUIT_FIELDS: MemoryFields<CircuitState> = {
  id: { type: "string", read: (circuit) => circuit.id },
  clientId: { type: "string", read: clientOf },
  service: { type: "string", read: (circuit) => circuit.serviceId },
  terminator: { type: "string", read: (circuit) => circuit.terminatorId },
  createdAt: { type: "datetime", read: (circuit) => circuit.createdAt.getTime() },
  updatedAt: { type: "datetime", read: (circuit) => circuit.updatedAt.getTime() },
  tags: { type: "tags", read: (circuit) => circuit.tags },
};

/** The session of a circuit, or the dialing client's id where there is no session. The tags name the identity in both cases. */
function clientOf({ grant, clientId }: CircuitState): string {
  return grant.kind === "session" ? grant.sessionId : clientId;
}

export async function listLinks(deps: ApiDependencies, list: ListQuery): Promise<ListResult<LinkDetail>> {
  const { data, totalCount } = selectPage(deps.fabric.links(), LINK_FIELDS, list);
  return { data: await renderLinks(deps, data), totalCount, filterableFields: Object.keys(LINK_FIELDS) };
}

export async function renderLinks(deps: ApiDependencies, links: readonly LinkState[]): Promise<LinkDetail[]> {
  const ends = links.flatMap((link) => [link.source, link.destination]);
  const names = await namesOf(deps.ctx.store.db, "router", ends);
  return links.map((link) => ({
    cost: link.cost,
    destLatency: link.destinationLatencyNs,
    destRouter: fabricRef("routers", link.destination, names.get(link.destination)),
    down: link.isDown,
    id: link.id,
    iteration: link.iteration,
    protocol: link.protocol,
    sourceLatency: link.sourceLatencyNs,
    sourceRouter: fabricRef("routers", link.source, names.get(link.source)),
    state: LINK_STATES[link.state],
    staticCost: link.staticCost,
  }));
}

export async function listCircuits(deps: ApiDependencies, list: ListQuery): Promise<ListResult<CircuitDetail>> {
  const { data, totalCount } = await deps.network.circuitPage(list);
  return { data: await renderCircuits(deps, data), totalCount, filterableFields: Object.keys(CIRCUIT_FIELDS) };
}

export async function renderCircuits(
  deps: ApiDependencies,
  circuits: readonly CircuitState[],
): Promise<CircuitDetail[]> {
  const { db } = deps.ctx.store;
  const routerIds = circuits.flatMap((circuit) => circuit.route.routers);
  const serviceIds = circuits.map((circuit) => circuit.serviceId);
  const [routers, services] = await Promise.all([namesOf(db, "router", routerIds), namesOf(db, "service", serviceIds)]);
  return circuits.map((circuit) => ({
    _links: fabricLinks("circuits", circuit.id),
    clientId: clientOf(circuit),
    createdAt: apiTime(circuit.createdAt),
    id: circuit.id,
    path: {
      links: circuit.route.links.map((id) => fabricRef("links", id, id)),
      nodes: circuit.route.routers.map((id) => fabricRef("routers", id, routers.get(id))),
    },
    service: fabricRef("services", circuit.serviceId, services.get(circuit.serviceId)),
    tags: { ...circuit.tags },
    terminator: fabricRef("terminators", circuit.terminatorId, circuit.terminatorId),
    updatedAt: apiTime(circuit.updatedAt),
  }));
}
