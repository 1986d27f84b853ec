import { z } from "zod";
import { base, entityRef } from "./entity.ts";
import { interfaces } from "./router.ts";
import {
  cost,
  costMap,
  jsonObject,
  names,
  namesOrNull,
  patchOf,
  pem,
  precedence,
  precedenceMap,
  tags,
  time,
  usernameOrBlank,
} from "./scalars.ts";
import { envInfo, sdkInfo } from "./session.ts";

const fields = {
  name: z.string(),
  type: z.enum(["User", "Device", "Service", "Router", "Default"]),
  isAdmin: z.boolean(),
  appData: jsonObject.default({}),
  authPolicyId: z.string().optional(),
  defaultHostingCost: cost.default(0),
  defaultHostingPrecedence: precedence.default("default"),
  externalId: z.string().optional(),
  permissions: names.default([]),
  roleAttributes: names.default([]),
  serviceHostingCosts: costMap.default({}),
  serviceHostingPrecedences: precedenceMap.default({}),
  tags: tags.default({}),
};
export const identityCreate = z.object({
  ...fields,
  /** One of them. */
  enrollment: z
    .object({ ott: z.boolean().optional(), ottca: z.string().optional(), updb: usernameOrBlank.optional() })
    .optional(),
});
export const identityUpdate = z.object(fields);
export const identityPatch = patchOf(fields);

const enrollment = {
  id: z.string().optional(),
  token: z.string().optional(),
  jwt: z.string().optional(),
  expiresAt: time,
};

export const identityDetail = z.strictObject({
  ...base,
  appData: jsonObject.optional(),
  authPolicy: entityRef,
  authPolicyId: z.string(),
  authenticators: z.strictObject({
    cert: z.strictObject({ id: z.string(), fingerprint: z.string() }).optional(),
    updb: z.strictObject({ id: z.string(), username: z.string() }).optional(),
  }),
  defaultHostingCost: cost,
  defaultHostingPrecedence: precedence.optional(),
  disabled: z.boolean(),
  disabledAt: time.optional(),
  disabledUntil: time.optional(),
  edgeRouterConnectionStatus: z.enum(["online", "offline", "unknown"]),
  enrollment: z.strictObject({
    ott: z.strictObject(enrollment).optional(),
    ottca: z.strictObject({ ...enrollment, caId: z.string().optional(), ca: entityRef.optional() }).optional(),
    updb: z.strictObject(enrollment).optional(),
  }),
  envInfo,
  externalId: z.string().nullable(),
  hasApiSession: z.boolean(),
  hasEdgeRouterConnection: z.boolean(),
  interfaces: interfaces.optional(),
  isAdmin: z.boolean(),
  isDefaultAdmin: z.boolean(),
  isMfaEnabled: z.boolean(),
  name: z.string(),
  permissions: names,
  roleAttributes: namesOrNull,
  sdkInfo,
  serviceHostingCosts: costMap,
  serviceHostingPrecedences: precedenceMap,
  type: entityRef,
  typeId: z.string(),
});

export const identityTypeDetail = z.strictObject({ ...base, name: z.string() });

export const disableIdentity = z.object({ durationMinutes: z.int() });

export const serviceConfigAssignments = z.array(z.object({ configId: z.string(), serviceId: z.string() }));
export const serviceConfigDetail = z.strictObject({
  config: entityRef,
  configId: z.string(),
  service: entityRef,
  serviceId: z.string(),
});

/** Counts and permissions that are 0 or false may be left out. */
export const policyAdvice = z.strictObject({
  commonRouters: z.array(z.strictObject({ ...entityRef.shape, isOnline: z.boolean() })),
  identity: entityRef.optional(),
  identityId: z.string().optional(),
  identityRouterCount: z.int().optional(),
  isBindAllowed: z.boolean().optional(),
  isDialAllowed: z.boolean().optional(),
  service: entityRef.optional(),
  serviceId: z.string().optional(),
  serviceRouterCount: z.int().optional(),
});

/** `overlap`: the new certificate is to count at once, beside the old one, until it is confirmed. Ours alone: others pass over it. */
export const extendRequest = z.object({ clientCertCsr: pem, overlap: z.boolean().optional() });
export const extendVerify = z.object({ clientCert: pem });
export const extendCerts = z.strictObject({ ca: pem.optional(), clientCert: pem.optional() });

export const traceSpec = z.object({
  /** What to trace: by which way circuits go, or how they are made and end; both when empty or `all`. */
  channels: z.array(z.enum(["all", "selectPath", "establishPath"])).default([]),
  /** Such as `10m` or `1h30m`; needed when enabled. */
  duration: z.string().default(""),
  enabled: z.boolean().default(false),
  /** A new one when empty. */
  traceId: z.string().default(""),
});
export const traceDetail = z.strictObject({
  enabled: z.boolean().optional(),
  traceId: z.string().optional(),
  /** The beginning of time while disabled. */
  until: time,
});

/** Ids of the routers that the session's first circuit passes, in order. */
export const sessionRoutePathDetail = z.strictObject({ routePath: names });
