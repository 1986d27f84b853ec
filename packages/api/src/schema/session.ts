import { z } from "zod";
import { base, entityRef } from "./entity.ts";
import { edgeRouterProperties } from "./router.ts";
import { dialBind, names, ownTags, password, pem, text253, text255, time, username } from "./scalars.ts";

export const envInfo = z.object({
  arch: text255.optional(),
  domain: text253.optional(),
  hostname: text253.optional(),
  os: text255.optional(),
  osRelease: text255.optional(),
  osVersion: text255.optional(),
});

export const sdkInfo = z.object({
  appId: text255.optional(),
  appVersion: text255.optional(),
  branch: text255.optional(),
  revision: text255.optional(),
  type: text255.optional(),
  version: text255.optional(),
});

/** Config types that one login asks for. */
export const MAX_CONFIG_TYPES = 1_000;

export const authenticate = z.object({
  configTypes: z.array(text255).max(MAX_CONFIG_TYPES).optional(),
  envInfo: envInfo.optional(),
  sdkInfo: sdkInfo.optional(),
  username: username.optional(),
  password: password.optional(),
});

export const authQuery = z.strictObject({
  clientId: z.string().optional(),
  format: z.enum(["numeric", "alpha", "alphaNumeric"]).optional(),
  httpMethod: z.string().optional(),
  httpUrl: z.string().optional(),
  id: z.string().optional(),
  isTotpEnrolled: z.boolean().optional(),
  maxLength: z.int().optional(),
  minLength: z.int().optional(),
  provider: z.enum(["ziti", "url"]),
  scopes: names.optional(),
  typeId: z.enum(["MFA", "TOTP", "EXT-JWT"]).optional(),
});

const apiSessionFields = {
  ...base,
  authQueries: z.array(authQuery),
  authenticatorId: z.string(),
  cachedLastActivityAt: time,
  configTypes: names,
  identity: entityRef,
  identityId: z.string(),
  improperClientCertChain: z.boolean().optional(),
  ipAddress: z.string(),
  isCertExtendRequested: z.boolean().optional(),
  isCertExtendable: z.boolean(),
  isCertKeyRollRequested: z.boolean().optional(),
  isMfaComplete: z.boolean(),
  isMfaRequired: z.boolean(),
  lastActivityAt: time,
  token: z.string(),
};
export const apiSessionDetail = z.strictObject(apiSessionFields);
export const currentApiSessionDetail = z.strictObject({
  ...apiSessionFields,
  expirationSeconds: z.int(),
  expiresAt: time,
});

export const sessionCertificateCreate = z.object({ csr: pem });
export const sessionCertificateDetail = z.strictObject({
  ...base,
  certificate: pem,
  fingerprint: z.string(),
  subject: z.string(),
  validFrom: time,
  validTo: time,
});
export const sessionCertificateCreated = z.strictObject({
  _links: base._links,
  id: z.string(),
  certificate: pem,
  cas: pem.optional(),
});

export const serviceUpdates = z.strictObject({ lastChangeAt: time });

export const sessionCreate = z.object({
  serviceId: text255.optional(),
  type: z.enum([...dialBind.options, ""]).optional(),
  tags: ownTags.default({}),
});
const sessionFields = {
  ...base,
  apiSession: entityRef,
  apiSessionId: z.string(),
  edgeRouters: z.array(z.strictObject({ ...edgeRouterProperties, urls: z.record(z.string(), z.string()) })),
  identityId: z.string(),
  service: entityRef,
  serviceId: z.string(),
  token: z.string(),
  type: dialBind,
};
export const sessionDetail = z.strictObject(sessionFields);
export const sessionManagementDetail = z.strictObject({ ...sessionFields, servicePolicies: z.array(entityRef) });
