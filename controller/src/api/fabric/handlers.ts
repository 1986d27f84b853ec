import {
  type clusterMember,
  type fabricOperations,
  type inspectResponse,
  notFound,
  openApiDocument,
  orNull,
} from "@sallyport/api";
import type { z } from "zod";
import type { InspectionResult } from "../../fabric/inspection.ts";
import type { ApiHandlers } from "../../http/context.ts";
import { Membership } from "../../model/replica/membership.ts";
import type { Replica } from "../../model/replica/replica-set.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { detail } from "../lists/listing.ts";
import { entityLists, renderRouter, renderService, renderTerminators } from "./entities.ts";
import { listCircuits, listLinks, renderCircuits, renderLinks } from "./live.ts";

/** The Fabric API: services, routers and terminators as the fabric has them, links, circuits and inspections. */
export function fabricHandlers(deps: ApiDependencies): ApiHandlers<typeof fabricOperations> {
  const { model, fabric, network } = deps;
  const { db } = deps.ctx.store;
  const lists = entityLists(deps);
  let document: string | undefined;
  const membership = new Membership(deps.ctx.replicas);
  /** A router has to connect again when its certificate is replaced. */
  const updateRouter = async (id: string, change: Parameters<typeof model.routers.update>[1]) => {
    const before = await model.routers.get(db, id);
    await model.routers.update(id, change, "any");
    const print = change.fingerprint?.toLowerCase();
    if (print !== undefined && print !== before.fingerprint) {
      await network.disconnectRouter(id, "the router's certificate was replaced by an administrator");
    }
  };

  return {
    getFabricSpec: async () => {
      document ??= JSON.stringify(openApiDocument("fabric", { oidc: deps.ctx.settings.oidc.enabled }));
      return { body: document };
    },

    listServices: ({ list }) => lists.services(list),
    // Without an SDK at both ends there is no end-to-end encryption; services for SDKs come from the Management API.
    createService: async ({ body }) => ({
      id: await model.services.create({ ...body, configs: [], roleAttributes: [], encryptionRequired: false }),
    }),
    detailService: async ({ params }) => ({ data: renderService(await model.services.get(db, params.id)) }),
    updateService: ({ params, body }) => model.services.update(params.id, body),
    patchService: ({ params, body }) => model.services.update(params.id, body),
    deleteService: ({ params }) => model.services.delete(params.id),
    listServiceTerminators: ({ params, list }) => lists.terminators(list, { serviceId: params.id }),

    listRouters: ({ list }) => lists.routers(list),
    createRouter: async ({ body }) => {
      await model.routers.createEnrolled(body);
      return { id: body.id };
    },
    detailRouter: async ({ params }) => ({ data: renderRouter(deps, await model.routers.get(db, params.id)) }),
    updateRouter: ({ params, body }) => updateRouter(params.id, body),
    patchRouter: ({ params, body }) => updateRouter(params.id, body),
    deleteRouter: ({ params }) => model.routers.delete(params.id),
    listRouterTerminators: ({ params, list }) => lists.terminators(list, { routerId: params.id }),

    listTerminators: ({ list }) => lists.terminators(list),
    createTerminator: async ({ body: { instanceId, instanceSecret, ...body } }) => ({
      id: await model.terminators.create(
        { ...body, identity: instanceId, identitySecret: instanceSecret },
        "instanceSecret",
      ),
    }),
    detailTerminator: async ({ params }) => detail(deps, renderTerminators, await model.terminators.get(db, params.id)),
    updateTerminator: ({ params, body }) => model.terminators.update(params.id, body),
    patchTerminator: ({ params, body }) => model.terminators.update(params.id, body),
    deleteTerminator: ({ params }) => model.terminators.delete(params.id),

    listLinks: ({ list }) => listLinks(deps, list),
    detailLink: async ({ params }) => {
      const link = fabric.link(params.id);
      if (link === undefined) throw notFound("link", params.id);
      return detail(deps, renderLinks, link);
    },
    patchLink: async ({ params, body: { down, staticCost } }) => {
      const change = { ...(down !== undefined && { isDown: down }), ...(staticCost !== undefined && { staticCost }) };
      if ((await fabric.updateLink(params.id, change)) === undefined) throw notFound("link", params.id);
    },
    // A link that is unknown here may exist on a router: all routers get the message, so the request always succeeds.
    deleteLink: async ({ params }) => {
      await network.removeLink(params.id);
    },

    listCircuits: ({ list }) => listCircuits(deps, list),
    detailCircuit: async ({ params }) => {
      const circuit = await network.circuit(params.id);
      if (circuit === undefined) throw notFound("circuit", params.id);
      return detail(deps, renderCircuits, circuit);
    },
    deleteCircuit: async ({ params, body }) => {
      if (!(await network.removeCircuit(params.id, body.immediate))) throw notFound("circuit", params.id);
    },

    inspect: async ({ body }) => ({ data: inspectionResponse(await network.inspect(body)) }),

    clusterListMembers: async () => ({ data: membership.members().map(renderMember) }),
    clusterAddMember: async () => {
      throw membership.refusal("add");
    },
    clusterRemoveMember: ({ body }) => membership.remove(body.id),
    clusterTransferLeadership: async () => {
      throw membership.refusal("lead");
    },
  };
}

/** Every controller may lead, so each counts as a voter. */
function renderMember({ id, ctrlAddress, version, isLive, leads }: Replica): z.input<typeof clusterMember> {
  return { id, address: ctrlAddress, version, connected: isLive, leader: leads, voter: true };
}

/** JSON objects and lists in values become structured; an empty list becomes null. */
function inspectionResponse({ errors, success, values }: InspectionResult): z.input<typeof inspectResponse> {
  const shown = values.map(({ appId, name, value }) => ({ appId, name, value: structured(value) }));
  return { errors: orNull([...errors]), success, values: orNull(shown) };
}

/** Deeper values stay text: JSON.stringify cannot write unbounded nesting. */
const MAX_DEPTH = 100;

function structured(text: string): unknown {
  if (!/^\s*[{[]/.test(text) || isDeeper(text, MAX_DEPTH)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Brackets in strings count, too: at worst a value stays text. */
function isDeeper(text: string, limit: number): boolean {
  let depth = 0;
  for (const [bracket] of text.matchAll(/[[{}\]]/g)) {
    depth += bracket === "[" || bracket === "{" ? 1 : -1;
    if (depth > limit) return true;
  }
  return false;
}
