import { z } from "zod";
import { interfaces } from "./edge-router.ts";
import { base } from "./entity.ts";
import { cost, names, patchOf, tags, time } from "./scalars.ts";

const ctrlChanListeners = z.record(z.string(), names);
const fields = {
  name: z.string(),
  cost: cost.default(0),
  ctrlChanListeners: ctrlChanListeners.default({}),
  disabled: z.boolean().default(false),
  noTraversal: z.boolean().default(false),
  tags: tags.default({}),
};
export const routerCreate = z.object(fields);
export const routerUpdate = z.object(fields);
export const routerPatch = patchOf(fields);

/** A router as part of the fabric, whether SDKs may use it or not. */
export const routerDetail = z.strictObject({
  ...base,
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
