import { create, detail, json, list, patch, remove, replace } from "../operation.ts";
import { identityDetail } from "../schema/identity.ts";
import {
  edgeRouterPolicyCreate,
  edgeRouterPolicyDetail,
  edgeRouterPolicyPatch,
  edgeRouterPolicyUpdate,
  serviceEdgeRouterPolicyCreate,
  serviceEdgeRouterPolicyDetail,
  serviceEdgeRouterPolicyPatch,
  serviceEdgeRouterPolicyUpdate,
  servicePolicyCreate,
  servicePolicyDetail,
  servicePolicyPatch,
  servicePolicyUpdate,
} from "../schema/policy.ts";
import { edgeRouterDetail } from "../schema/router.ts";
import { serviceDetail } from "../schema/service.ts";

/** The three kinds of policy and what each selects. */
export const policyOperations = {
  listEdgeRouterPolicies: list("/edge-router-policies", "admin", edgeRouterPolicyDetail, "Edge router policies"),
  createEdgeRouterPolicy: create(
    "/edge-router-policies",
    "admin",
    json(edgeRouterPolicyCreate),
    "Create an edge router policy",
  ),
  detailEdgeRouterPolicy: detail(
    "/edge-router-policies/{id}",
    "admin",
    edgeRouterPolicyDetail,
    "One edge router policy",
  ),
  updateEdgeRouterPolicy: replace(
    "/edge-router-policies/{id}",
    "admin",
    edgeRouterPolicyUpdate,
    "Replace all fields of an edge router policy",
  ),
  patchEdgeRouterPolicy: patch(
    "/edge-router-policies/{id}",
    "admin",
    edgeRouterPolicyPatch,
    "Change some fields of an edge router policy",
  ),
  deleteEdgeRouterPolicy: remove("/edge-router-policies/{id}", "admin", "Delete an edge router policy"),
  listEdgeRouterPolicyEdgeRouters: list(
    "/edge-router-policies/{id}/edge-routers",
    "admin",
    edgeRouterDetail,
    "Edge routers that an edge router policy selects",
  ),
  listEdgeRouterPolicyIdentities: list(
    "/edge-router-policies/{id}/identities",
    "admin",
    identityDetail,
    "Identities that an edge router policy selects",
  ),

  listServiceEdgeRouterPolicies: list(
    "/service-edge-router-policies",
    "admin",
    serviceEdgeRouterPolicyDetail,
    "Service edge router policies",
  ),
  createServiceEdgeRouterPolicy: create(
    "/service-edge-router-policies",
    "admin",
    json(serviceEdgeRouterPolicyCreate),
    "Create a service edge router policy",
  ),
  detailServiceEdgeRouterPolicy: detail(
    "/service-edge-router-policies/{id}",
    "admin",
    serviceEdgeRouterPolicyDetail,
    "One service edge router policy",
  ),
  updateServiceEdgeRouterPolicy: replace(
    "/service-edge-router-policies/{id}",
    "admin",
    serviceEdgeRouterPolicyUpdate,
    "Replace all fields of a service edge router policy",
  ),
  patchServiceEdgeRouterPolicy: patch(
    "/service-edge-router-policies/{id}",
    "admin",
    serviceEdgeRouterPolicyPatch,
    "Change some fields of a service edge router policy",
  ),
  deleteServiceEdgeRouterPolicy: remove(
    "/service-edge-router-policies/{id}",
    "admin",
    "Delete a service edge router policy",
  ),
  listServiceEdgeRouterPolicyEdgeRouters: list(
    "/service-edge-router-policies/{id}/edge-routers",
    "admin",
    edgeRouterDetail,
    "Edge routers that a service edge router policy selects",
  ),
  listServiceEdgeRouterPolicyServices: list(
    "/service-edge-router-policies/{id}/services",
    "admin",
    serviceDetail,
    "Services that a service edge router policy selects",
  ),

  listServicePolicies: list("/service-policies", "admin", servicePolicyDetail, "Service policies"),
  createServicePolicy: create("/service-policies", "admin", json(servicePolicyCreate), "Create a service policy"),
  detailServicePolicy: detail("/service-policies/{id}", "admin", servicePolicyDetail, "One service policy"),
  updateServicePolicy: replace(
    "/service-policies/{id}",
    "admin",
    servicePolicyUpdate,
    "Replace all fields of a service policy",
  ),
  patchServicePolicy: patch(
    "/service-policies/{id}",
    "admin",
    servicePolicyPatch,
    "Change some fields of a service policy",
  ),
  deleteServicePolicy: remove("/service-policies/{id}", "admin", "Delete a service policy"),
  listServicePolicyIdentities: list(
    "/service-policies/{id}/identities",
    "admin",
    identityDetail,
    "Identities that a service policy selects",
  ),
  listServicePolicyServices: list(
    "/service-policies/{id}/services",
    "admin",
    serviceDetail,
    "Services that a service policy selects",
  ),
};
