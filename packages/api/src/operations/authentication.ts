import { action, create, detail, json, list, patch, raw, remove, replace, type TextBody } from "../operation.ts";
import {
  authPolicyCreate,
  authPolicyDetail,
  authPolicyPatch,
  authPolicyUpdate,
  caCreate,
  caDetail,
  caPatch,
  caUpdate,
  externalJwtSignerCreate,
  externalJwtSignerDetail,
  externalJwtSignerPatch,
  externalJwtSignerUpdate,
  requestExtend,
  revocationCreate,
  revocationDetail,
} from "../schema/authentication.ts";

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

const certificate: TextBody = { kind: "text", name: "certificate", textTypes: ["text/plain"] };

/** Third-party certificate authorities, and what administrators ask of certificates. */
export const certificateAuthorityOperations = {
  listCas: list("/cas", "admin", caDetail, "Certificate authorities"),
  createCa: create("/cas", "admin", json(caCreate), "Register a certificate authority; it has to be verified"),
  detailCa: detail("/cas/{id}", "admin", caDetail, "One certificate authority"),
  updateCa: replace("/cas/{id}", "admin", caUpdate, "Replace all fields of a certificate authority"),
  patchCa: patch("/cas/{id}", "admin", caPatch, "Change some fields of a certificate authority"),
  deleteCa: remove("/cas/{id}", "admin", "Delete a certificate authority and the authenticators made through it"),
  getCaJwt: {
    ...raw("/cas/{id}/jwt", "admin", ["application/jwt"], "The token with which holders of its certificates enroll"),
    errors: [400, 401, 404, 429],
  },
  verifyCa: action(
    "POST",
    "/cas/{id}/verify",
    "admin",
    certificate,
    "Prove possession: a certificate of the authority whose common name is the verification token",
    { errors: [400, 401, 404, 409, 429] },
  ),
  requestExtendAuthenticator: action(
    "POST",
    "/authenticators/{id}/request-extend",
    "admin",
    json(requestExtend),
    "Ask the holder of a certificate to extend it",
  ),
};

/** Tokens that count no longer although they have not ended. */
export const revocationOperations = {
  listRevocations: list("/revocations", "admin", revocationDetail, "Revocations that are in force"),
  createRevocation: create(
    "/revocations",
    "admin",
    json(revocationCreate),
    "Revoke a token, the tokens of an API session by OIDC, or those of an identity; such sessions end",
    { errors: [400, 401, 404, 429] },
  ),
  detailRevocation: detail("/revocations/{id}", "admin", revocationDetail, "One revocation"),
};
