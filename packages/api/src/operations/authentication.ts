import { create, detail, json, list, patch, remove, replace } from "../operation.ts";
import { authPolicyCreate, authPolicyDetail, authPolicyPatch, authPolicyUpdate } from "../schema/auth-policy.ts";
import {
  externalJwtSignerCreate,
  externalJwtSignerDetail,
  externalJwtSignerPatch,
  externalJwtSignerUpdate,
} from "../schema/external-jwt-signer.ts";

/** How identities may authenticate: policies, and the issuers of external tokens. */
export const authenticationOperations = {
  listAuthPolicies: list("/auth-policies", "admin", authPolicyDetail, "Authentication policies"),
  createAuthPolicy: create("/auth-policies", "admin", json(authPolicyCreate), "Create an authentication policy", {
    errors: [400, 401, 404, 429],
  }),
  detailAuthPolicy: detail("/auth-policies/{id}", "admin", authPolicyDetail, "One authentication policy"),
  updateAuthPolicy: replace(
    "/auth-policies/{id}",
    "admin",
    authPolicyUpdate,
    "Replace all fields of an authentication policy",
  ),
  patchAuthPolicy: patch(
    "/auth-policies/{id}",
    "admin",
    authPolicyPatch,
    "Change some fields of an authentication policy",
  ),
  deleteAuthPolicy: remove("/auth-policies/{id}", "admin", "Delete an authentication policy"),

  listExternalJwtSigners: list("/external-jwt-signers", "admin", externalJwtSignerDetail, "External JWT signers"),
  createExternalJwtSigner: create(
    "/external-jwt-signers",
    "admin",
    json(externalJwtSignerCreate),
    "Create an external JWT signer",
  ),
  detailExternalJwtSigner: detail(
    "/external-jwt-signers/{id}",
    "admin",
    externalJwtSignerDetail,
    "One external JWT signer",
  ),
  updateExternalJwtSigner: replace(
    "/external-jwt-signers/{id}",
    "admin",
    externalJwtSignerUpdate,
    "Replace all fields of an external JWT signer",
  ),
  patchExternalJwtSigner: patch(
    "/external-jwt-signers/{id}",
    "admin",
    externalJwtSignerPatch,
    "Change some fields of an external JWT signer",
  ),
  deleteExternalJwtSigner: remove("/external-jwt-signers/{id}", "admin", "Delete an external JWT signer"),
};
