/** What administrators see of posture: the reports of an identity's devices, and the requests that failed by them. */
import { z } from "zod";
import { operatingSystem, osType } from "./posture.ts";
import { dialBind, names, semantic, time } from "./scalars.ts";
import { sdkInfo } from "./session.ts";

const report = { lastUpdatedAt: time.nullable(), postureCheckId: z.string(), timedOut: z.boolean() };

export const postureData = z.strictObject({
  apiSessionPostureData: z.record(
    z.string(),
    z.strictObject({
      endpointState: z.strictObject({ unlockedAt: time.nullable(), wokenAt: time.nullable() }).optional(),
      mfa: z.strictObject({
        apiSessionId: z.string(),
        passedAt: time.nullable(),
        passedMfa: z.boolean(),
        passedOnUnlock: z.boolean(),
        passedOnWake: z.boolean(),
      }),
      sdkInfo: sdkInfo.optional(),
    }),
  ),
  domain: z.strictObject({ ...report, domain: z.string() }),
  mac: z.strictObject({ ...report, addresses: names }),
  os: z.strictObject({ ...report, build: z.string(), type: z.string(), version: z.string() }),
  processes: z.array(
    z.strictObject({
      ...report,
      binaryHash: z.string().optional(),
      isRunning: z.boolean().optional(),
      path: z.string().optional(),
      signerFingerprints: names,
    }),
  ),
});

const processActual = z.strictObject({
  hash: z.string(),
  isRunning: z.boolean(),
  osType: osType.optional(),
  path: z.string().optional(),
  signerFingerprints: names,
});
const processExpected = z.strictObject({
  osType,
  path: z.string(),
  hashes: names,
  signerFingerprint: z.string().optional(),
});
const processMultiExpected = z.strictObject({ osType, path: z.string(), hashes: names, signerFingerprints: names });
const mfaValues = z.strictObject({
  passedMfa: z.boolean(),
  passedOnUnlock: z.boolean(),
  passedOnWake: z.boolean(),
  timedOut: z.boolean(),
});
const failure = { postureCheckId: z.string(), postureCheckName: z.string() };

/** A check that failed: what it wanted, and what was known of the device then. */
export const postureCheckFailure = z.discriminatedUnion("postureCheckType", [
  z.strictObject({ ...failure, postureCheckType: z.literal("DOMAIN"), actualValue: z.string(), expectedValue: names }),
  z.strictObject({ ...failure, postureCheckType: z.literal("MAC"), actualValue: names, expectedValue: names }),
  z.strictObject({
    ...failure,
    postureCheckType: z.literal("OS"),
    actualValue: z.strictObject({ type: z.string(), version: z.string() }),
    expectedValue: z.array(operatingSystem),
  }),
  z.strictObject({
    ...failure,
    postureCheckType: z.literal("PROCESS"),
    actualValue: processActual,
    expectedValue: processExpected,
  }),
  z.strictObject({
    ...failure,
    postureCheckType: z.literal("PROCESS_MULTI"),
    actualValue: z.array(processActual),
    expectedValue: z.array(processMultiExpected),
    semantic,
  }),
  z.strictObject({
    ...failure,
    postureCheckType: z.literal("MFA"),
    actualValue: mfaValues,
    expectedValue: mfaValues,
    criteria: z.strictObject({
      passedMfaAt: time.nullable(),
      timeoutRemainingSeconds: z.int(),
      timeoutSeconds: z.int(),
      unlockedAt: time.nullable(),
      wokenAt: time.nullable(),
    }),
  }),
]);

export const failedServiceRequest = z.strictObject({
  apiSessionId: z.string(),
  policyFailures: z.array(
    z.strictObject({ checks: z.array(postureCheckFailure), policyId: z.string(), policyName: z.string() }),
  ),
  serviceId: z.string(),
  serviceName: z.string(),
  sessionType: dialBind,
  when: time,
});
