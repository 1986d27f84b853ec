import { z } from "zod";
import {
  action,
  call,
  create,
  detail,
  emptyBody,
  json,
  list,
  optionalJson,
  patch,
  remove,
  replace,
  wholeList,
} from "../operation.ts";
import {
  authenticatorCreate,
  authenticatorDetail,
  authenticatorPatch,
  authenticatorUpdate,
  enrollmentCreate,
  enrollmentDetail,
  expiry,
} from "../schema/authenticator.ts";
import {
  disableIdentity,
  identityCreate,
  identityDetail,
  identityPatch,
  identityTypeDetail,
  identityUpdate,
  policyAdvice,
  serviceConfigAssignments,
  serviceConfigDetail,
  sessionRoutePathDetail,
  traceDetail,
  traceSpec,
} from "../schema/identity.ts";
import { edgeRouterPolicyDetail, servicePolicyDetail } from "../schema/policy.ts";
import { edgeRouterDetail } from "../schema/router.ts";
import { serviceDetail } from "../schema/service.ts";
import { apiSessionDetail, sessionManagementDetail } from "../schema/session.ts";
import { whyAnswer } from "../schema/why.ts";
import { attributeUsage, policyType, roleParameters, whyType } from "./shared.ts";

export const identityOperations = {
  listIdentities: list("/identities", "admin", identityDetail, "Identities", { query: roleParameters }),
  createIdentity: create("/identities", "admin", json(identityCreate), "Create an identity"),
  detailIdentity: detail("/identities/{id}", "admin", identityDetail, "One identity"),
  updateIdentity: replace("/identities/{id}", "admin", identityUpdate, "Replace all fields of an identity"),
  patchIdentity: patch("/identities/{id}", "admin", identityPatch, "Change some fields of an identity"),
  deleteIdentity: remove("/identities/{id}", "admin", "Delete an identity and end its access"),
  getIdentityAuthenticators: list(
    "/identities/{id}/authenticators",
    "admin",
    authenticatorDetail,
    "Authenticators of an identity",
  ),
  getIdentityEnrollments: list(
    "/identities/{id}/enrollments",
    "admin",
    enrollmentDetail,
    "Outstanding enrollments of an identity",
  ),
  listIdentitysEdgeRouterPolicies: list(
    "/identities/{id}/edge-router-policies",
    "admin",
    edgeRouterPolicyDetail,
    "Edge router policies that select an identity",
  ),
  listIdentityEdgeRouters: list(
    "/identities/{id}/edge-routers",
    "admin",
    edgeRouterDetail,
    "Edge routers that an identity may use",
  ),
  listIdentityServicePolicies: list(
    "/identities/{id}/service-policies",
    "admin",
    servicePolicyDetail,
    "Service policies that select an identity",
  ),
  listIdentityServices: list(
    "/identities/{id}/services",
    "admin",
    serviceDetail,
    "Services that an identity may dial or bind",
    { query: policyType },
  ),
  getIdentityPolicyAdvice: detail(
    "/identities/{id}/policy-advice/{serviceId}",
    "admin",
    policyAdvice,
    "Whether and how an identity can reach a service",
  ),
  explainAccess: detail(
    "/identities/{id}/why/{serviceId}",
    "admin",
    whyAnswer,
    "Why an identity can or cannot dial or bind a service, and what to do; ids or names",
    { query: whyType, errors: [400, 401, 404, 429] },
  ),
  disableIdentity: action(
    "POST",
    "/identities/{id}/disable",
    "admin",
    json(disableIdentity),
    "Disable an identity and end its sessions; 0 minutes or less is until it is enabled",
  ),
  enableIdentity: action("POST", "/identities/{id}/enable", "admin", emptyBody, "Enable an identity"),
  listIdentitysServiceConfigs: wholeList(
    "/identities/{id}/service-configs",
    "admin",
    serviceConfigDetail,
    "Configs that replace those of services for an identity",
  ),
  associateIdentitysServiceConfigs: action(
    "POST",
    "/identities/{id}/service-configs",
    "admin",
    json(serviceConfigAssignments),
    "Replace configs of services for an identity",
  ),
  disassociateIdentitysServiceConfigs: action(
    "DELETE",
    "/identities/{id}/service-configs",
    "admin",
    optionalJson(serviceConfigAssignments),
    "Give an identity the services' own configs again",
  ),
  listIdentityTypes: list("/identity-types", "admin", identityTypeDetail, "Identity types"),
  detailIdentityType: detail("/identity-types/{id}", "admin", identityTypeDetail, "One identity type"),
  listIdentityRoleAttributes: list(
    "/identity-role-attributes",
    "admin",
    z.string(),
    "Role attributes in use on identities",
  ),
  listIdentityRoleAttributeUsage: attributeUsage(
    "/identity-role-attribute-usage",
    "Role attributes of identities, and what uses them",
  ),

  listAuthenticators: list("/authenticators", "admin", authenticatorDetail, "Authenticators"),
  createAuthenticator: create("/authenticators", "admin", json(authenticatorCreate), "Create an authenticator", {
    errors: [400, 401, 404, 409, 429],
  }),
  detailAuthenticator: detail("/authenticators/{id}", "admin", authenticatorDetail, "One authenticator"),
  updateAuthenticator: replace("/authenticators/{id}", "admin", authenticatorUpdate, "Set user name and password"),
  patchAuthenticator: patch("/authenticators/{id}", "admin", authenticatorPatch, "Change user name or password"),
  deleteAuthenticator: remove("/authenticators/{id}", "admin", "Delete an authenticator"),
  reEnrollAuthenticator: create(
    "/authenticators/{id}/re-enroll",
    "admin",
    json(expiry),
    "Delete an authenticator and make an enrollment in its place",
    { collection: "enrollments" },
  ),

  listEnrollments: list("/enrollments", "admin", enrollmentDetail, "Outstanding enrollments"),
  createEnrollment: create("/enrollments", "admin", json(enrollmentCreate), "Create an enrollment", {
    errors: [400, 401, 404, 409, 429],
  }),
  detailEnrollment: detail("/enrollments/{id}", "admin", enrollmentDetail, "One enrollment"),
  deleteEnrollment: remove("/enrollments/{id}", "admin", "Delete an enrollment"),
  refreshEnrollment: create(
    "/enrollments/{id}/refresh",
    "admin",
    json(expiry),
    "A new token for an enrollment; the old one is dead",
    { collection: "enrollments", status: 200 },
  ),

  listAPISessions: list("/api-sessions", "admin", apiSessionDetail, "API sessions"),
  detailAPISessions: detail("/api-sessions/{id}", "admin", apiSessionDetail, "One API session"),
  deleteAPISessions: remove("/api-sessions/{id}", "admin", "End an API session"),
  listSessions: list(
    "/sessions",
    "full",
    sessionManagementDetail,
    "Sessions; the caller's own unless an administrator",
  ),
  detailSession: detail("/sessions/{id}", "full", sessionManagementDetail, "One session"),
  deleteSession: remove("/sessions/{id}", "full", "End a session"),
};

/** What shows an administrator where an identity's data flows. */
export const tracingOperations = {
  updateIdentityTracing: call(
    "PUT",
    "/identities/{id}/trace",
    "admin",
    json(traceSpec),
    traceDetail,
    "Trace the circuits of an identity for some time, or stop that",
  ),
  detailSessionRoutePath: detail(
    "/sessions/{id}/route-path",
    "admin",
    sessionRoutePathDetail,
    "Routers that a session's circuit passes",
  ),
};
