import { z } from "zod";
import { names, time } from "./scalars.ts";

export const traceSpec = z.object({
  /** What to trace: by which way circuits go, or how they are made and end; both when empty or `all`. */
  channels: z.array(z.enum(["all", "selectPath", "establishPath"])).default([]),
  /** Such as `10m` or `1h30m`; needed when enabled. */
  duration: z.string().default(""),
  enabled: z.boolean().default(false),
  /** A new one when empty. */
  traceId: z.string().default(""),
});
export const traceDetail = z.strictObject({
  enabled: z.boolean().optional(),
  traceId: z.string().optional(),
  /** The beginning of time while disabled. */
  until: time,
});

/** Ids of the routers that the session's first circuit passes, in order. */
export const sessionRoutePathDetail = z.strictObject({ routePath: names });
