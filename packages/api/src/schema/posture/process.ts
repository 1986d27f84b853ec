import { z } from "zod";
import { names, namesOrNull, semantic } from "../scalars.ts";
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

const answered = z.strictObject({ osType, path: z.string(), hashes: names, signerFingerprints: names });

/** `PROCESS_MULTI`: all of the programs run on the device, or one of them. Devices report each as `PROCESS`. */
export const processMulti = postureType("PROCESS_MULTI", "ProcessMulti", {
  fields: {
    semantic,
    processes: z
      .array(
        z.object({
          osType,
          path: z.string().min(1),
          hashes: names.default([]),
          signerFingerprints: names.default([]),
        }),
      )
      .min(1),
  },
  detail: { semantic, processes: z.array(answered) },
  failure: { actualValue: z.array(actualProcess), expectedValue: z.array(answered), semantic },
  listed: { name: "Process Multi Check", systems: DESKTOP_SYSTEMS },
});
