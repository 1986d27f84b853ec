import { z } from "zod";
import { names } from "./scalars.ts";

/** What a client reports about its device. `id` is that of the posture check (any text for `ENDPOINT_STATE`). */
export const postureResponseCreate = z.discriminatedUnion("typeId", [
  z.object({ id: z.string(), typeId: z.literal("DOMAIN"), domain: z.string() }),
  z.object({ id: z.string(), typeId: z.literal("MAC"), macAddresses: names }),
  z.object({
    id: z.string(),
    typeId: z.literal("OS"),
    type: z.string(),
    version: z.string(),
    build: z.string().optional(),
  }),
  z.object({
    id: z.string(),
    typeId: z.literal("PROCESS"),
    path: z.string().optional(),
    isRunning: z.boolean().optional(),
    hash: z.string().optional(),
    signerFingerprints: names.optional(),
  }),
  z.object({
    id: z.string(),
    typeId: z.literal("ENDPOINT_STATE"),
    woken: z.boolean().optional(),
    unlocked: z.boolean().optional(),
  }),
]);

const affectedService = z.strictObject({
  id: z.string(),
  name: z.string(),
  postureQueryType: z.string(),
  timeout: z.int(),
  timeoutRemaining: z.int(),
});
export const postureResponse = z.strictObject({ services: z.array(affectedService) });
