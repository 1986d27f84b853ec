import { z } from "zod";
import { names, namesOrNull } from "../scalars.ts";
import {
  DESKTOP_SYSTEMS,
  MAX_VALUES,
  osType,
  postureReport,
  postureType,
  reported,
  reportedText,
} from "./posture-type.ts";

/** What was known of a process when a check failed. */
export const actualProcess = z.strictObject({
  hash: z.string(),
  isRunning: z.boolean(),
  osType: osType.optional(),
  path: z.string().optional(),
  signerFingerprints: names,
});

/** `PROCESS`: a program runs on the device. Hashes are SHA-512, the signer's fingerprint SHA-1, both in hex. */
export const process = postureType("PROCESS", "Process", {
  fields: {
    process: z.object({
      osType,
      path: z.string().min(1),
      hashes: names.default([]),
      signerFingerprint: z.string().optional(),
    }),
  },
  detail: {
    process: z.strictObject({
      osType,
      path: z.string(),
      hashes: namesOrNull,
      signerFingerprint: z.string().optional(),
    }),
  },
  failure: {
    actualValue: actualProcess,
    expectedValue: z.strictObject({
      osType,
      path: z.string(),
      hashes: names,
      signerFingerprint: z.string().optional(),
    }),
  },
  listed: { name: "Process Check", systems: DESKTOP_SYSTEMS },
});

/** It answers `PROCESS_MULTI` checks as well, with one report per path. */
export const processReport = postureReport("PROCESS", "Process", {
  fields: {
    path: reportedText.optional(),
    isRunning: z.boolean().optional(),
    hash: reportedText.optional(),
    signerFingerprints: z.array(reportedText).max(MAX_VALUES).optional(),
  },
  data: {
    processes: z.array(
      z.strictObject({
        ...reported,
        binaryHash: z.string().optional(),
        isRunning: z.boolean().optional(),
        path: z.string().optional(),
        signerFingerprints: names,
      }),
    ),
  },
});
