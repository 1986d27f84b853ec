/** The Client API: what applications that access services call. Base path `/edge/client/v1`. */
import { call, detail, json, list, pagedDetail, patch, remove, replace } from "../operation.ts";
import { clientExternalJwtSignerDetail } from "../schema/authentication.ts";
import { protocols } from "../schema/informational.ts";
import { postureResponse, postureResponseCreate, postureResponses } from "../schema/posture/types.ts";
import { currentIdentityEdgeRouter, serviceEdgeRouters } from "../schema/router.ts";
import { names } from "../schema/scalars.ts";
import { serviceDetail, servicePatch, serviceUpdate, terminatorClientDetail } from "../schema/service.ts";
import {
  serviceUpdates,
  sessionCertificateCreate,
  sessionCertificateCreated,
  sessionCertificateDetail,
  sessionCreate,
  sessionDetail,
} from "../schema/session.ts";
import { whyAnswer } from "../schema/why.ts";
import { enrollmentOperations } from "./enrollment.ts";
import { roleParameters, sharedOperations, whyType } from "./shared.ts";

export const clientOperations = {
  ...sharedOperations,

  listProtocols: detail("/protocols", "public", protocols, "Where this API listens, by protocol", { errors: [429] }),
  ...enrollmentOperations,

  listCurrentApiSessionCertificates: list(
    "/current-api-session/certificates",
    "full",
    sessionCertificateDetail,
    "Certificates of the caller's API session",
  ),
  createCurrentApiSessionCertificate: call(
    "POST",
    "/current-api-session/certificates",
    "full",
    json(sessionCertificateCreate),
    sessionCertificateCreated,
    "A short-lived certificate for this API session",
    { status: 201 },
  ),
  detailCurrentApiSessionCertificate: detail(
    "/current-api-session/certificates/{id}",
    "full",
    sessionCertificateDetail,
    "One certificate of the caller's API session",
  ),
  deleteCurrentApiSessionCertificate: remove(
    "/current-api-session/certificates/{id}",
    "full",
    "Delete a certificate of the caller's API session",
  ),
  listServiceUpdates: detail(
    "/current-api-session/service-updates",
    "full",
    serviceUpdates,
    "When the caller's services last changed",
    { errors: [401, 429] },
  ),
  getCurrentIdentityEdgeRouters: list(
    "/current-identity/edge-routers",
    "full",
    currentIdentityEdgeRouter,
    "Edge routers that the caller may use",
  ),

  listExternalJwtSigners: list(
    "/external-jwt-signers",
    "public",
    clientExternalJwtSignerDetail,
    "Issuers whose tokens authenticate",
  ),
  createPostureResponse: call(
    "POST",
    "/posture-response",
    "full",
    json(postureResponseCreate),
    postureResponse,
    "Report one posture value",
    { status: 201 },
  ),
  createPostureResponseBulk: call(
    "POST",
    "/posture-response-bulk",
    "full",
    json(postureResponses),
    postureResponse,
    "Report posture values",
    { status: 201 },
  ),

  listServices: list("/services", "full", serviceDetail, "Services that the caller may dial or bind", {
    query: { ...roleParameters, configTypes: names.optional() },
  }),
  detailService: detail("/services/{id}", "full", serviceDetail, "One service"),
  listServiceEdgeRouters: {
    ...pagedDetail(
      "/services/{id}/edge-routers",
      "full",
      serviceEdgeRouters,
      "Edge routers through which the caller may reach a service",
      // As many as a session names.
      { defaultLimit: 25, errors: [400, 401, 404, 429] },
    ),
    headers: [{ name: "session-token", description: "The token of a session of the caller for the service" }],
  },
  updateService: replace("/services/{id}", "admin", serviceUpdate, "Replace all fields of a service"),
  patchService: patch("/services/{id}", "admin", servicePatch, "Change some fields of a service"),
  deleteService: remove("/services/{id}", "admin", "Delete a service"),
  explainOwnAccess: detail(
    "/services/{id}/why",
    "full",
    whyAnswer,
    "Why the caller can or cannot dial or bind a service; id or name. A service that the caller may not see does not exist",
    { query: whyType, errors: [400, 401, 404, 429] },
  ),
  listServiceTerminators: list(
    "/services/{id}/terminators",
    "full",
    terminatorClientDetail,
    "Terminators of a service",
  ),

  listSessions: list("/sessions", "full", sessionDetail, "The caller's sessions"),
  createSession: call("POST", "/sessions", "full", json(sessionCreate), sessionDetail, "Dial or bind a service", {
    status: 201,
    errors: [400, 401, 404, 409, 429],
  }),
  detailSession: detail("/sessions/{id}", "full", sessionDetail, "One of the caller's sessions"),
  deleteSession: remove("/sessions/{id}", "full", "End one of the caller's sessions"),
};
