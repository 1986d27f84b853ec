import { z } from "zod";
import { time } from "./scalars.ts";

/** What a data integrity run found, or has found so far. */
export const dataIntegrityDetails = z.strictObject({
  inProgress: z.boolean(),
  /** The run repairs what it can. */
  fixingErrors: z.boolean(),
  /** There is more than `results` holds: at most 1000. */
  tooManyErrors: z.boolean(),
  startTime: time.nullable(),
  endTime: time.nullable(),
  /** Why the run itself failed. */
  error: z.string().nullable(),
  results: z.array(z.strictObject({ description: z.string(), fixed: z.boolean() })).nullable(),
});

export const snapshotRequest = z.object({
  /** Below the folder of snapshots; placeholders as in the reference. */
  path: z.string().optional(),
});

export const snapshotMade = z.strictObject({ path: z.string() });
