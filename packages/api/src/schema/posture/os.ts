import { z } from "zod";
import { namesOrNull } from "../scalars.ts";
import { osType, postureReport, postureType, reported, reportedText } from "./posture-type.ts";

/** `versions` are ranges of semantic versions such as `>=10.0.0 <11.0.0`; none = any version. */
const operatingSystem = z.object({ type: osType, versions: z.array(z.string().max(256)).default([]) });
/** A system in answers. */
export const systemDetail = z.strictObject({ type: osType, versions: namesOrNull });

/** `OS`: the device runs one of the operating systems. */
export const os = postureType("OS", "OperatingSystem", {
  fields: { operatingSystems: z.array(operatingSystem).min(1) },
  detail: { operatingSystems: z.array(systemDetail) },
  failure: {
    actualValue: z.strictObject({ type: z.string(), version: z.string() }),
    expectedValue: z.array(operatingSystem),
  },
  listed: { name: "Operating System Check", systems: osType.options },
});

export const osReport = postureReport("OS", "OperatingSystem", {
  fields: { type: reportedText, version: reportedText, build: reportedText.optional() },
  data: { os: z.strictObject({ ...reported, build: z.string(), type: z.string(), version: z.string() }) },
});
