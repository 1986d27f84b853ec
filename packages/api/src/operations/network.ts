import { z } from "zod";
import { action, create, detail, emptyBody, json, list, patch, remove, replace } from "../operation.ts";
import { identityDetail } from "../schema/identity.ts";
import { summary } from "../schema/informational.ts";
import { edgeRouterPolicyDetail, serviceEdgeRouterPolicyDetail, servicePolicyDetail } from "../schema/policy.ts";
import {
  edgeRouterCreate,
  edgeRouterDetail,
  edgeRouterPatch,
  edgeRouterUpdate,
  routerCreate,
  routerDetail,
  routerPatch,
  routerUpdate,
} from "../schema/router.ts";
import { names } from "../schema/scalars.ts";
import {
  configCreate,
  configDetail,
  configPatch,
  configTypeCreate,
  configTypeDetail,
  configTypePatch,
  configTypeUpdate,
  configUpdate,
  serviceCreate,
  serviceDetail,
  servicePatch,
  serviceUpdate,
  terminatorCreate,
  terminatorDetail,
  terminatorPatch,
  terminatorUpdate,
} from "../schema/service.ts";
import { attributeUsage, policyType, roleParameters } from "./shared.ts";

/** Edge routers, services with their configs, and the terminators between them. */
export const networkOperations = {
  listSummary: detail("/summary", "full", summary, "Number of entities by collection", { errors: [401, 429] }),

  listEdgeRouters: list("/edge-routers", "admin", edgeRouterDetail, "Edge routers", { query: roleParameters }),
  createEdgeRouter: create("/edge-routers", "admin", json(edgeRouterCreate), "Create an edge router"),
  detailEdgeRouter: detail("/edge-routers/{id}", "admin", edgeRouterDetail, "One edge router"),
  updateEdgeRouter: replace("/edge-routers/{id}", "admin", edgeRouterUpdate, "Replace all fields of an edge router"),
  patchEdgeRouter: patch("/edge-routers/{id}", "admin", edgeRouterPatch, "Change some fields of an edge router"),
  deleteEdgeRouter: remove("/edge-routers/{id}", "admin", "Delete an edge router"),
  listEdgeRouterEdgeRouterPolicies: list(
    "/edge-routers/{id}/edge-router-policies",
    "admin",
    edgeRouterPolicyDetail,
    "Edge router policies that select an edge router",
  ),
  listEdgeRouterIdentities: list(
    "/edge-routers/{id}/identities",
    "admin",
    identityDetail,
    "Identities that may use an edge router",
  ),
  listEdgeRouterServiceEdgeRouterPolicies: list(
    "/edge-routers/{id}/service-edge-router-policies",
    "admin",
    serviceEdgeRouterPolicyDetail,
    "Service edge router policies that select an edge router",
  ),
  listEdgeRouterServices: list(
    "/edge-routers/{id}/services",
    "admin",
    serviceDetail,
    "Services that may use an edge router",
  ),
  reEnrollEdgeRouter: action(
    "POST",
    "/edge-routers/{id}/re-enroll",
    "admin",
    emptyBody,
    "Take an edge router's certificates away and make a new enrollment",
  ),
  listEdgeRouterRoleAttributes: list(
    "/edge-router-role-attributes",
    "admin",
    z.string(),
    "Role attributes in use on edge routers",
  ),
  listEdgeRouterRoleAttributeUsage: attributeUsage(
    "/edge-router-role-attribute-usage",
    "Role attributes of edge routers, and what uses them",
  ),

  listServices: list("/services", "admin", serviceDetail, "Services", {
    query: { ...roleParameters, configTypes: names.optional(), asIdentity: z.string().optional() },
  }),
  createService: create("/services", "admin", json(serviceCreate), "Create a service", {
    errors: [400, 401, 404, 429],
  }),
  detailService: detail("/services/{id}", "admin", serviceDetail, "One service"),
  updateService: replace("/services/{id}", "admin", serviceUpdate, "Replace all fields of a service"),
  patchService: patch("/services/{id}", "admin", servicePatch, "Change some fields of a service"),
  deleteService: remove("/services/{id}", "admin", "Delete a service"),
  listServiceConfig: list("/services/{id}/configs", "admin", configDetail, "Configs of a service"),
  listServiceEdgeRouters: list(
    "/services/{id}/edge-routers",
    "admin",
    edgeRouterDetail,
    "Edge routers that a service may use",
  ),
  listServiceIdentities: list(
    "/services/{id}/identities",
    "admin",
    identityDetail,
    "Identities that may dial or bind a service",
    { query: policyType },
  ),
  listServiceServiceEdgeRouterPolicies: list(
    "/services/{id}/service-edge-router-policies",
    "admin",
    serviceEdgeRouterPolicyDetail,
    "Service edge router policies that select a service",
  ),
  listServiceServicePolicies: list(
    "/services/{id}/service-policies",
    "admin",
    servicePolicyDetail,
    "Service policies that select a service",
  ),
  listServiceTerminators: list("/services/{id}/terminators", "admin", terminatorDetail, "Terminators of a service"),
  listServiceRoleAttributes: list(
    "/service-role-attributes",
    "admin",
    z.string(),
    "Role attributes in use on services",
  ),
  listServiceRoleAttributeUsage: attributeUsage(
    "/service-role-attribute-usage",
    "Role attributes of services, and what uses them",
  ),

  listConfigs: list("/configs", "admin", configDetail, "Configs"),
  createConfig: create("/configs", "admin", json(configCreate), "Create a config"),
  detailConfig: detail("/configs/{id}", "admin", configDetail, "One config"),
  updateConfig: replace("/configs/{id}", "admin", configUpdate, "Replace all fields of a config"),
  patchConfig: patch("/configs/{id}", "admin", configPatch, "Change some fields of a config"),
  deleteConfig: remove("/configs/{id}", "admin", "Delete a config"),
  listConfigServices: list("/configs/{id}/services", "admin", serviceDetail, "Services that use a config"),

  listConfigTypes: list("/config-types", "admin", configTypeDetail, "Config types"),
  createConfigType: create("/config-types", "admin", json(configTypeCreate), "Create a config type"),
  detailConfigType: detail("/config-types/{id}", "admin", configTypeDetail, "One config type"),
  updateConfigType: replace("/config-types/{id}", "admin", configTypeUpdate, "Replace all fields of a config type"),
  patchConfigType: patch("/config-types/{id}", "admin", configTypePatch, "Change some fields of a config type"),
  deleteConfigType: remove("/config-types/{id}", "admin", "Delete a config type that is not in use"),
  listConfigsForConfigType: list("/config-types/{id}/configs", "admin", configDetail, "Configs of a config type"),

  listTerminators: list("/terminators", "admin", terminatorDetail, "Terminators"),
  createTerminator: create("/terminators", "admin", json(terminatorCreate), "Create a terminator", {
    errors: [400, 401, 404, 429],
  }),
  detailTerminator: detail("/terminators/{id}", "admin", terminatorDetail, "One terminator"),
  updateTerminator: replace("/terminators/{id}", "admin", terminatorUpdate, "Replace all fields of a terminator"),
  patchTerminator: patch("/terminators/{id}", "admin", terminatorPatch, "Change some fields of a terminator"),
  deleteTerminator: remove("/terminators/{id}", "admin", "Delete a terminator"),
};

/** All routers, edge routers among them, under both of their names. What is created here is a transit router: no SDK uses it. */
export const routerOperations = {
  listRouters: list("/routers", "admin", routerDetail, "Routers, edge routers among them"),
  createRouter: create("/routers", "admin", json(routerCreate), "Create a transit router"),
  detailRouter: detail("/routers/{id}", "admin", routerDetail, "One router"),
  updateRouter: replace("/routers/{id}", "admin", routerUpdate, "Replace all fields of a transit router"),
  patchRouter: patch("/routers/{id}", "admin", routerPatch, "Change some fields of a transit router"),
  deleteRouter: remove("/routers/{id}", "admin", "Delete a router"),

  listTransitRouters: list("/transit-routers", "admin", routerDetail, "Routers, edge routers among them"),
  createTransitRouter: create("/transit-routers", "admin", json(routerCreate), "Create a transit router"),
  detailTransitRouter: detail("/transit-routers/{id}", "admin", routerDetail, "One router"),
  updateTransitRouter: replace(
    "/transit-routers/{id}",
    "admin",
    routerUpdate,
    "Replace all fields of a transit router",
  ),
  patchTransitRouter: patch("/transit-routers/{id}", "admin", routerPatch, "Change some fields of a transit router"),
  deleteTransitRouter: remove("/transit-routers/{id}", "admin", "Delete a router"),
};
