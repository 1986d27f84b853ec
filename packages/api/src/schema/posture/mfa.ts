import { z } from "zod";
import { time } from "../scalars.ts";
import { postureReport, postureType } from "./posture-type.ts";

const values = z.strictObject({
  passedMfa: z.boolean(),
  passedOnUnlock: z.boolean(),
  passedOnWake: z.boolean(),
  timedOut: z.boolean(),
});

/** `MFA`: TOTP was passed in the API session, and has not lapsed. As in OpenZiti it is not listed among the types: consoles add it. */
export const mfa = postureType("MFA", "Mfa", {
  fields: {
    timeoutSeconds: z.int().optional(),
    promptOnWake: z.boolean().optional(),
    promptOnUnlock: z.boolean().optional(),
    ignoreLegacyEndpoints: z.boolean().optional(),
  },
  detail: {
    timeoutSeconds: z.int(),
    promptOnWake: z.boolean(),
    promptOnUnlock: z.boolean(),
    ignoreLegacyEndpoints: z.boolean(),
  },
  failure: {
    actualValue: values,
    expectedValue: values,
    criteria: z.strictObject({
      passedMfaAt: time.nullable(),
      timeoutRemainingSeconds: z.int(),
      timeoutSeconds: z.int(),
      unlockedAt: time.nullable(),
      wokenAt: time.nullable(),
    }),
  },
});

/** The device woke up or was unlocked. It belongs to the API session, so `posture-data` shows it there. */
export const endpointStateReport = postureReport("ENDPOINT_STATE", "EndpointState", {
  fields: { woken: z.boolean().optional(), unlocked: z.boolean().optional() },
  data: {},
});
