import { z } from "zod";
import {
  action,
  call,
  detail,
  emptyBody,
  json,
  list,
  optionalJson,
  patch,
  raw,
  replace,
  wholeList,
} from "../operation.ts";
import {
  authenticatorDetail,
  authenticatorPatchWithCurrent,
  authenticatorUpdateWithCurrent,
  mfaCode,
  totpToken,
} from "../schema/authenticator.ts";
import { extendCerts, extendRequest, extendVerify, identityDetail } from "../schema/identity.ts";
import { capability, controllerDetail, networkJwt, specDetail, version } from "../schema/informational.ts";
import { roleAttributeUsage } from "../schema/policy.ts";
import { routerCapability } from "../schema/router.ts";
import { names, semantic } from "../schema/scalars.ts";
import { authenticate, currentApiSessionDetail } from "../schema/session.ts";
import { mfaOperations } from "./mfa.ts";

/** Select by role: each `roleFilter` is `#attribute` or `@id`; attributes are combined by `roleSemantic` (default `AllOf`). */
export const roleParameters = { roleFilter: names.optional(), roleSemantic: semantic.optional() };

/** Restrict a relation that goes through service policies to one kind of access. */
export const policyType = { policyType: z.enum(["dial", "bind"]).optional() };

/** What an identity is asked about: to dial a service, the default, or to host it. */
export const whyType = { type: z.enum(["dial", "bind"]).optional() };

/** A list of role attributes with what uses them; `withIds` adds the ids of the users. */
export function attributeUsage<P extends string>(path: P, summary: string) {
  return list(path, "admin", roleAttributeUsage, summary, { query: { withIds: z.stringbool().optional() } });
}

/** Operations that both APIs have, with the same shapes. */
export const sharedOperations = {
  ...mfaOperations,
  listSpecs: wholeList("/specs", "public", specDetail, "Descriptions of the APIs that this controller serves", {
    errors: [],
  }),
  detailSpec: detail("/specs/{id}", "public", specDetail, "One description: `edge-client`, `edge-management`, …", {
    errors: [404],
  }),
  detailSpecBody: raw(
    "/specs/{id}/spec",
    "public",
    ["text/yaml", "application/json"],
    "The OpenAPI document itself, YAML or JSON by Accept",
  ),
  listRoot: detail("/", "public", version, "Version and capabilities of the controller", { errors: [] }),
  listVersion: detail("/version", "public", version, "Version and capabilities of the controller", { errors: [] }),
  listEnumeratedCapabilities: wholeList(
    "/enumerated-capabilities",
    "public",
    capability,
    "Capabilities that a controller may have; those that this one has are in its version",
    { errors: [] },
  ),
  listEnumeratedRouterCapabilities: wholeList(
    "/enumerated-router-capabilities",
    "full",
    routerCapability,
    "Capabilities that an edge router may have; those that one has are in its record",
    { errors: [401, 429] },
  ),
  listWellKnownCas: raw(
    "/.well-known/est/cacerts",
    "public",
    ["application/pkcs7-mime"],
    "Certificates that clients of this network trust: PKCS#7, base64",
    { "content-transfer-encoding": "base64" },
  ),
  listNetworkJWTs: list("/network-jwts", "public", networkJwt, "Tokens that name this network to a client"),
  listControllers: list("/controllers", "full", controllerDetail, "Controllers of the network"),

  authenticate: {
    ...call(
      "POST",
      "/authenticate",
      "public",
      optionalJson(authenticate),
      currentApiSessionDetail,
      "Primary authentication: makes an API session",
      { query: { method: z.enum(["password", "cert", "ext-jwt"]) } },
    ),
    issuesSession: true as const,
  },
  getCurrentAPISession: detail("/current-api-session", "partial", currentApiSessionDetail, "The caller's API session", {
    errors: [401],
  }),
  deleteCurrentAPISession: action("DELETE", "/current-api-session", "partial", emptyBody, "Log out", { errors: [401] }),

  createTotpToken: call(
    "POST",
    "/current-api-session/totp-token",
    "full",
    json(mfaCode),
    totpToken,
    "Prove a one-time code to routers of 2.x: a token for the session of an access token",
    { errors: [400, 401, 404, 409, 429] },
  ),

  getCurrentIdentity: detail("/current-identity", "full", identityDetail, "The caller's identity", { errors: [401] }),
  listCurrentIdentityAuthenticators: list(
    "/current-identity/authenticators",
    "full",
    authenticatorDetail,
    "The caller's authenticators",
    { errors: [400, 401] },
  ),
  detailCurrentIdentityAuthenticator: detail(
    "/current-identity/authenticators/{id}",
    "full",
    authenticatorDetail,
    "One of the caller's authenticators",
    { errors: [401, 404] },
  ),
  updateCurrentIdentityAuthenticator: {
    ...replace(
      "/current-identity/authenticators/{id}",
      "full",
      authenticatorUpdateWithCurrent,
      "Set one's own user name and password",
    ),
    errors: [400, 401, 404, 409, 429],
  },
  patchCurrentIdentityAuthenticator: {
    ...patch(
      "/current-identity/authenticators/{id}",
      "full",
      authenticatorPatchWithCurrent,
      "Change one's own user name or password",
    ),
    errors: [400, 401, 404, 409, 429],
  },
  extendCurrentIdentityAuthenticator: call(
    "POST",
    "/current-identity/authenticators/{id}/extend",
    "full",
    json(extendRequest),
    extendCerts,
    "A new certificate for the one in use, in force after extend-verify",
    { errors: [400, 401, 404] },
  ),
  extendVerifyCurrentIdentityAuthenticator: action(
    "POST",
    "/current-identity/authenticators/{id}/extend-verify",
    "full",
    json(extendVerify),
    "Put an extended certificate in force",
    { errors: [400, 401, 404] },
  ),
};
