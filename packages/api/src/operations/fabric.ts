/** The Fabric API: what operators of the network call, and the CLI's `fabric` commands. Base path `/fabric/v1`. */
import {
  action,
  bare,
  create,
  detail,
  json,
  list,
  optionalJson,
  patch,
  raw,
  replace,
  wholeList,
} from "../operation.ts";
import {
  circuitDelete,
  circuitDetail,
  clusterMember,
  clusterMemberAdd,
  clusterMemberRemove,
  clusterTransferLeadership,
  fabricRouterCreate,
  fabricRouterDetail,
  fabricRouterPatch,
  fabricRouterUpdate,
  fabricServiceCreate,
  fabricServiceDetail,
  fabricServicePatch,
  fabricServiceUpdate,
  fabricTerminatorCreate,
  fabricTerminatorDetail,
  fabricTerminatorPatch,
  fabricTerminatorUpdate,
  inspectRequest,
  inspectResponse,
  linkDetail,
  linkPatch,
} from "../schema/fabric.ts";

const referencing = { errors: [400, 401, 404, 429] };
const singleOnly = { errors: [400, 401, 429] };

/** DELETE; clients send a body with each, which only circuits read. */
function removal<P extends string>(path: P, summary: string) {
  return action("DELETE", path, "admin", optionalJson(circuitDelete), summary, { errors: [400, 401, 404, 409, 429] });
}

export const fabricOperations = {
  getFabricSpec: raw("/", "public", ["application/json"], "The OpenAPI document of this API"),

  listServices: list("/services", "admin", fabricServiceDetail, "Services"),
  createService: create("/services", "admin", json(fabricServiceCreate), "Create a service", referencing),
  detailService: detail("/services/{id}", "admin", fabricServiceDetail, "One service"),
  updateService: replace("/services/{id}", "admin", fabricServiceUpdate, "Replace all fields of a service"),
  patchService: patch("/services/{id}", "admin", fabricServicePatch, "Change some fields of a service"),
  deleteService: removal("/services/{id}", "Delete a service"),
  listServiceTerminators: list(
    "/services/{id}/terminators",
    "admin",
    fabricTerminatorDetail,
    "Terminators of a service",
  ),

  listRouters: list("/routers", "admin", fabricRouterDetail, "Routers, edge routers among them"),
  createRouter: create("/routers", "admin", json(fabricRouterCreate), "Create a router that has its certificate"),
  detailRouter: detail("/routers/{id}", "admin", fabricRouterDetail, "One router"),
  updateRouter: replace("/routers/{id}", "admin", fabricRouterUpdate, "Replace all fields of a router"),
  patchRouter: patch("/routers/{id}", "admin", fabricRouterPatch, "Change some fields of a router"),
  deleteRouter: removal("/routers/{id}", "Delete a router"),
  listRouterTerminators: list("/routers/{id}/terminators", "admin", fabricTerminatorDetail, "Terminators on a router"),

  listTerminators: list("/terminators", "admin", fabricTerminatorDetail, "Terminators"),
  createTerminator: create("/terminators", "admin", json(fabricTerminatorCreate), "Create a terminator", referencing),
  detailTerminator: detail("/terminators/{id}", "admin", fabricTerminatorDetail, "One terminator"),
  updateTerminator: replace("/terminators/{id}", "admin", fabricTerminatorUpdate, "Replace all fields of a terminator"),
  patchTerminator: patch("/terminators/{id}", "admin", fabricTerminatorPatch, "Change some fields of a terminator"),
  deleteTerminator: removal("/terminators/{id}", "Delete a terminator"),

  listLinks: list("/links", "admin", linkDetail, "Links between routers, as they are now"),
  detailLink: detail("/links/{id}", "admin", linkDetail, "One link"),
  patchLink: patch("/links/{id}", "admin", linkPatch, "Set a link's cost, or take it out of service"),
  deleteLink: removal("/links/{id}", "Have both ends close a link"),

  listCircuits: list("/circuits", "admin", circuitDetail, "Circuits that are up"),
  detailCircuit: detail("/circuits/{id}", "admin", circuitDetail, "One circuit"),
  deleteCircuit: removal("/circuits/{id}", "End a circuit, at once when `immediate`"),

  inspect: bare("POST", "/inspections", "admin", json(inspectRequest), inspectResponse, "Ask routers about themselves"),

  clusterListMembers: wholeList(
    "/cluster/list-members",
    "admin",
    clusterMember,
    "Controllers of the network",
    singleOnly,
  ),
  clusterAddMember: action(
    "POST",
    "/cluster/add-member",
    "admin",
    json(clusterMemberAdd),
    "Add a controller: always refused, it joins by itself",
    singleOnly,
  ),
  clusterRemoveMember: action(
    "POST",
    "/cluster/remove-member",
    "admin",
    json(clusterMemberRemove),
    "Remove a controller that is gone for good",
    { errors: [...singleOnly.errors, 404] },
  ),
  clusterTransferLeadership: action(
    "POST",
    "/cluster/transfer-leadership",
    "admin",
    json(clusterTransferLeadership),
    "Make another controller the leader: always refused, it leads when the leader is stopped",
    singleOnly,
  ),
};
