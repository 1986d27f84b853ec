/** Posture checks, and what is known of the posture of identities. What devices report is in the Client API (`client.ts`). */

import { z } from "zod";
import { create, detail, json, list, patch, remove, replace, wholeList } from "../operation.ts";
import {
  failedServiceRequest,
  postureCheckCreate,
  postureCheckDetail,
  postureCheckPatch,
  postureCheckTypeDetail,
  postureCheckUpdate,
  postureData,
} from "../schema/posture/types.ts";
import { attributeUsage, roleParameters } from "./shared.ts";

export const postureOperations = {
  listPostureChecks: list("/posture-checks", "admin", postureCheckDetail, "Posture checks", { query: roleParameters }),
  createPostureCheck: create("/posture-checks", "admin", json(postureCheckCreate), "Create a posture check"),
  detailPostureCheck: detail("/posture-checks/{id}", "admin", postureCheckDetail, "One posture check"),
  updatePostureCheck: replace(
    "/posture-checks/{id}",
    "admin",
    postureCheckUpdate,
    "Replace all fields of a posture check; its type stays",
  ),
  patchPostureCheck: patch("/posture-checks/{id}", "admin", postureCheckPatch, "Change some fields of a posture check"),
  deletePostureCheck: remove("/posture-checks/{id}", "admin", "Delete a posture check: policies ask for it no longer"),
  listPostureCheckTypes: list("/posture-check-types", "admin", postureCheckTypeDetail, "Types of posture checks"),
  detailPostureCheckType: detail(
    "/posture-check-types/{id}",
    "admin",
    postureCheckTypeDetail,
    "One type of posture checks",
  ),
  listPostureCheckRoleAttributes: list(
    "/posture-check-role-attributes",
    "admin",
    z.string(),
    "Role attributes in use by posture checks",
  ),
  listPostureCheckRoleAttributeUsage: attributeUsage(
    "/posture-check-role-attribute-usage",
    "Role attributes of posture checks, and what uses them",
  ),
  listServicePolicyPostureChecks: list(
    "/service-policies/{id}/posture-checks",
    "admin",
    postureCheckDetail,
    "Posture checks that a service policy asks for",
  ),
  getIdentityPostureData: detail(
    "/identities/{id}/posture-data",
    "admin",
    postureData,
    "What the devices of an identity last reported",
  ),
  getIdentityFailedServiceRequests: wholeList(
    "/identities/{id}/failed-service-requests",
    "admin",
    failedServiceRequest,
    "The newest session requests of an identity that failed posture checks; kept in memory",
  ),
};
