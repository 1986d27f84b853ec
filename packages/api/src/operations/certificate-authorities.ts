import { action, create, detail, json, list, patch, raw, remove, replace, type TextBody } from "../operation.ts";
import { caCreate, caDetail, caPatch, caUpdate } from "../schema/certificate-authority.ts";
import { requestExtend } from "../schema/enrollment.ts";

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
