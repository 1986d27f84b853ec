import { z } from "zod";
import { call, type JsonOrTextBody, json, optionalJson, unserved } from "../operation.ts";
import { enroll, enrolled, enrollmentCerts, routerExtend, tokenEnrollment } from "../schema/authentication.ts";

const enrollBody: JsonOrTextBody<typeof enroll> = {
  kind: "json-or-text",
  schema: enroll,
  textTypes: ["application/pkcs7", "application/pkcs10", "application/x-pem-file", "text/plain"],
};
const token = { token: z.string().optional() };
const errors = [400, 404, 409, 429];

const NEITHER = "OpenZiti describes it without a handler; enroll with a token of `POST /enroll/…`";
/** Described, but not served. */
export const unservedEnrollment = {
  getEnrollmentJwks: unserved("GET", "/enroll/jwks", "public", NEITHER),
  enrollmentChallenge: unserved("POST", "/enroll/challenge", "public", NEITHER),
};

/** How invitations become credentials. The token is taken from the query or the body, a request as PEM text or in a field. */
export const enrollmentOperations = {
  ...unservedEnrollment,
  enroll: call("POST", "/enroll", "public", enrollBody, enrolled, "Enroll; the method is `ott` unless given", {
    query: { ...token, method: z.string().optional() },
    errors,
    textTypes: ["application/x-pem-file"],
  }),
  enrollOtt: call("POST", "/enroll/ott", "public", enrollBody, enrolled, "Enroll an identity by one-time token", {
    query: token,
    errors,
    textTypes: ["application/x-x509-user-cert"],
  }),
  enrollOttCa: call(
    "POST",
    "/enroll/ottca",
    "public",
    enrollBody,
    enrolled,
    "Enroll an identity by one-time token and the certificate of a registered authority that the connection presents",
    { query: token, errors },
  ),
  enrollCa: call(
    "POST",
    "/enroll/ca",
    "public",
    enrollBody,
    enrolled,
    "Become an identity by the certificate of a registered authority that the connection presents",
    { errors },
  ),
  ernollUpdb: call("POST", "/enroll/updb", "public", enrollBody, enrolled, "Set user name and password", {
    query: token,
    errors,
  }),
  enrollToken: {
    ...call(
      "POST",
      "/enroll/token",
      "public",
      optionalJson(tokenEnrollment),
      enrolled,
      "Become an identity by a token of an external signer that allows it: `Authorization: Bearer`",
      { errors },
    ),
    takesExternalToken: true as const,
    headers: [
      { name: "ziti-token-issuer-id", description: "Id of the signer; without it, the one that the token names" },
    ],
  },
  enrollErOtt: call(
    "POST",
    "/enroll/erott",
    "public",
    enrollBody,
    enrolled,
    "Enroll an edge router by one-time token",
    { query: token, errors },
  ),
  extendRouterEnrollment: call(
    "POST",
    "/enroll/extend/router",
    "public",
    json(routerExtend),
    enrollmentCerts,
    "New certificates for the router whose certificate the connection presents",
    { errors: [400, 401, 429] },
  ),
};
