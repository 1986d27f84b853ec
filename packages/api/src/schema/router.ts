import { z } from "zod";
import { base } from "./entity.ts";
import { cost, jsonObject, names, namesOrNull, patchOf, tags, time } from "./scalars.ts";

export const syncStatus = z.enum([
  "SYNC_NEW",
  "SYNC_QUEUED",
  "SYNC_HELLO",
  "SYNC_HELLO_WAIT",
  "SYNC_RESYNC_WAIT",
  "SYNC_IN_PROGRESS",
  "SYNC_DONE",
  "SYNC_UNKNOWN",
  "SYNC_DISCONNECTED",
  "SYNC_HELLO_TIMEOUT",
  "SYNC_ERROR",
]);

/** What a router may announce that it can do. Clients ignore names that they do not know. */
export const routerCapability = z.enum([
  "MULTI_CHANNEL",
  "CONNECT_V2",
  "SERVICE_SUBSCRIPTIONS",
  "POSTURE_CHECKS",
  "BIND_SUCCESS",
]);

/** What clients, too, learn about an edge router. */
export const edgeRouterProperties = {
  appData: jsonObject.optional(),
  /** Absent while it is offline. */
  capabilities: z.array(routerCapability).optional(),
  cost: cost.nullable(),
  disabled: z.boolean().nullable(),
  hostname: z.string(),
  isOnline: z.boolean(),
  name: z.string(),
  noTraversal: z.boolean().nullable(),
  supportedProtocols: z.record(z.string(), z.string()),
  syncStatus,
  /** Of its program; empty while it is not known. */
  version: z.string(),
};
export const commonEdgeRouter = z.strictObject(edgeRouterProperties);
export const currentIdentityEdgeRouter = z.strictObject({ ...base, ...edgeRouterProperties });
export const serviceEdgeRouters = z.strictObject({ edgeRouters: z.array(commonEdgeRouter) });

const networkInterface = z.strictObject({
  name: z.string(),
  hardwareAddress: z.string(),
  index: z.int(),
  mtu: z.int(),
  isBroadcast: z.boolean(),
  isLoopback: z.boolean(),
  isMulticast: z.boolean(),
  isRunning: z.boolean(),
  isUp: z.boolean(),
  addresses: names,
});
export const interfaces = z.array(networkInterface);

export const versionInfo = z.strictObject({
  arch: z.string(),
  buildDate: z.string(),
  os: z.string(),
  revision: z.string(),
  version: z.string(),
});

const ctrlChanListeners = z.record(z.string(), names);
const edgeRouterFields = {
  name: z.string(),
  appData: jsonObject.default({}),
  configs: names.default([]),
  cost: cost.default(0),
  ctrlChanListeners: ctrlChanListeners.default({}),
  disabled: z.boolean().default(false),
  isTunnelerEnabled: z.boolean().default(false),
  noTraversal: z.boolean().default(false),
  roleAttributes: names.default([]),
  tags: tags.default({}),
};
export const edgeRouterCreate = z.object(edgeRouterFields);
export const edgeRouterUpdate = z.object(edgeRouterFields);
export const edgeRouterPatch = patchOf(edgeRouterFields);

export const edgeRouterDetail = z.strictObject({
  ...base,
  ...edgeRouterProperties,
  certPem: z.string().nullable(),
  configs: namesOrNull,
  ctrlChanListeners: ctrlChanListeners.optional(),
  enrollmentCreatedAt: time.optional(),
  enrollmentExpiresAt: time.optional(),
  enrollmentJwt: z.string().optional(),
  enrollmentToken: z.string().optional(),
  fingerprint: z.string().optional(),
  interfaces: interfaces.optional(),
  isTunnelerEnabled: z.boolean(),
  isVerified: z.boolean(),
  roleAttributes: namesOrNull,
  unverifiedCertPem: z.string().nullable(),
  unverifiedFingerprint: z.string().nullable(),
  versionInfo: versionInfo.optional(),
});

const routerFields = {
  name: z.string(),
  configs: names.default([]),
  cost: cost.default(0),
  ctrlChanListeners: ctrlChanListeners.default({}),
  disabled: z.boolean().default(false),
  noTraversal: z.boolean().default(false),
  tags: tags.default({}),
};
export const routerCreate = z.object(routerFields);
export const routerUpdate = z.object(routerFields);
export const routerPatch = patchOf(routerFields);

/** A router as part of the fabric, whether SDKs may use it or not. */
export const routerDetail = z.strictObject({
  ...base,
  configs: namesOrNull,
  cost,
  ctrlChanListeners: ctrlChanListeners.optional(),
  disabled: z.boolean(),
  enrollmentCreatedAt: time.optional(),
  enrollmentExpiresAt: time.optional(),
  enrollmentJwt: z.string().optional(),
  enrollmentToken: z.string().optional(),
  fingerprint: z.string().nullable(),
  interfaces: interfaces.optional(),
  isOnline: z.boolean(),
  isVerified: z.boolean(),
  name: z.string(),
  noTraversal: z.boolean(),
  unverifiedCertPem: z.string().nullable(),
  unverifiedFingerprint: z.string().nullable(),
});
