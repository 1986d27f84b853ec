import { z } from "zod";
import { names, semantic } from "../scalars.ts";
import { DESKTOP_SYSTEMS, osType, postureType } from "./posture-type.ts";
import { actualProcess } from "./process.ts";

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
