/** Why an identity can or cannot reach a service (`docs/why.md`). Sallyport's own: OpenZiti's description has no such shape. */
import { z } from "zod";
import { time } from "./scalars.ts";

/** What an answer is about; `entity` is the collection, such as `service-policies`. */
const whyEntity = z.strictObject({ entity: z.string(), id: z.string(), name: z.string() });

/** What fixes a problem: in words, and as a command where there is one. */
export const whyRemedy = z.strictObject({ text: z.string(), command: z.string().optional() });

/**
 * `failed` keeps the identity from the service; `warning` may do so, or will; `unknown` cannot be decided by the controller; `skipped` was not looked at, because
 * of an earlier failure.
 */
export const whyStatus = z.enum(["ok", "failed", "warning", "unknown", "skipped"]);

export const whyCheck = z.strictObject({
  /** What was looked at, such as `service-policy`. */
  check: z.string(),
  status: whyStatus,
  /** What is wrong, for programs; absent when nothing is. */
  code: z.string().optional(),
  message: z.string(),
  entities: z.array(whyEntity).optional(),
  /** Values behind the message, such as what a device reported. */
  details: z.record(z.string(), z.unknown()).optional(),
  remedies: z.array(whyRemedy).optional(),
  /** The parts of the check. */
  get checks() {
    return z.array(whyCheck).optional();
  },
});

/** What stands in the way first. */
export const whyProblem = z.strictObject({
  check: z.string(),
  status: whyStatus,
  code: z.string(),
  message: z.string(),
  remedies: z.array(whyRemedy).optional(),
});

export const whyFailedDial = z.strictObject({
  at: time,
  /** Why it failed, for programs: the cause of a circuit event, or the code of a refusal. */
  code: z.string(),
  message: z.string(),
  /** How often it failed so in a row; `at` is the last time. */
  count: z.int(),
  routerId: z.string().optional(),
});

/** The answer to "why not?". */
export const whyAnswer = z.strictObject({
  allowed: z.boolean(),
  type: z.enum(["Dial", "Bind"]),
  identity: whyEntity,
  service: whyEntity,
  /** When it was so. */
  at: time,
  checks: z.array(whyCheck),
  firstProblem: whyProblem.optional(),
  /** Newest first; this controller remembers them in memory. */
  lastFailedDials: z.array(whyFailedDial),
});
