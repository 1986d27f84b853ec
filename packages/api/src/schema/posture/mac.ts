import { z } from "zod";
import { names } from "../scalars.ts";
import { DESKTOP_SYSTEMS, MAX_VALUES, postureReport, postureType, reported } from "./posture-type.ts";

/** `MAC`: the device has one of the hardware addresses. */
export const mac = postureType("MAC", "MacAddress", {
  fields: { macAddresses: names.min(1) },
  detail: { macAddresses: names },
  failure: { actualValue: names, expectedValue: names },
  listed: { name: "MAC Address Check", systems: DESKTOP_SYSTEMS },
});

export const macReport = postureReport("MAC", "MacAddress", {
  fields: { macAddresses: z.array(z.string().max(64)).max(MAX_VALUES) },
  data: { mac: z.strictObject({ ...reported, addresses: names }) },
});
