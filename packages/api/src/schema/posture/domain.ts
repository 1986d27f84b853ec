import { z } from "zod";
import { names } from "../scalars.ts";
import { postureReport, postureType, reported, reportedText } from "./posture-type.ts";

/** `DOMAIN`: the device is a member of one of the Windows domains. */
export const domain = postureType("DOMAIN", "Domain", {
  fields: { domains: names.min(1) },
  detail: { domains: names },
  failure: { actualValue: z.string(), expectedValue: names },
  listed: { name: "Windows Domain Check", systems: ["Windows", "WindowsServer"] },
});

export const domainReport = postureReport("DOMAIN", "Domain", {
  fields: { domain: reportedText },
  data: { domain: z.strictObject({ ...reported, domain: z.string() }) },
});
