import { z } from "zod";
import { parseDuration } from "./duration.ts";

/** Events that take no options; with the older names of some. */
const PLAIN_TYPES = [
  "apiSession",
  "authentication",
  "cluster",
  "connect",
  "link",
  "router",
  "sdk",
  "service",
  "session",
  "edge.apiSessions",
  "edge.authentications",
  "edge.sessions",
  "fabric.links",
  "fabric.routers",
  "services",
] as const;

const CIRCUIT_EVENT_TYPES = ["created", "pathUpdated", "deleted", "failed"] as const;
const MOST_EXPRESSION_LENGTH = 256;
const DEFAULT_COUNT_INTERVAL = "5m";

const flag = z.union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")]);

const names = (what: string) =>
  z
    .union([z.string(), z.array(z.string())], `a list of ${what}`)
    .transform((given) => (typeof given === "string" ? [given] : given))
    .refine((list) => list.length > 0, `at least one of the ${what}; leave include out to get all`);

const expression = z
  .string("a regular expression")
  .max(MOST_EXPRESSION_LENGTH, `a regular expression of at most ${MOST_EXPRESSION_LENGTH} characters`)
  .transform((text, context) => {
    try {
      return new RegExp(text);
    } catch {
      context.addIssue({ code: "custom", message: "a regular expression" });
      return z.NEVER;
    }
  });

const countInterval = z
  .union([z.string(), z.number()])
  .transform((given, context): number => {
    const value = parseDuration(compact(String(given)));
    if (value !== undefined && value >= 1_000 && value <= 86_400_000) return value;
    context.addIssue({ code: "custom", message: "a duration from 1s to 24h, for example 5m" });
    return z.NEVER;
  })
  .prefault(DEFAULT_COUNT_INTERVAL);

/** Go writes five minutes as `5m0s`. */
function compact(text: string): string {
  return text.replaceAll(/(?<![\d.])0[smh]/g, "") || text;
}

/** One subscription: the `type` of the events and what limits or shapes them. */
export const eventSubscriptionSchema = z.discriminatedUnion(
  "type",
  [
    z.strictObject({ type: z.enum(PLAIN_TYPES) }),
    z.strictObject({
      type: z.enum(["circuit", "fabric.circuits"]),
      include: names("circuit events")
        .refine(
          (list) => list.every((name) => (CIRCUIT_EVENT_TYPES as readonly string[]).includes(name)),
          `any of ${CIRCUIT_EVENT_TYPES.join(", ")}`,
        )
        .optional(),
    }),
    z.strictObject({ type: z.enum(["terminator", "fabric.terminators"]), propagateAlways: flag.optional() }),
    z.strictObject({
      type: z.literal("entityChange"),
      propagateAlways: flag.optional(),
      includeParentEvents: flag.optional(),
      include: names("entity types").optional(),
    }),
    z.strictObject({ type: z.enum(["entityCount", "edge.entityCounts"]), interval: countInterval }),
    z.strictObject({
      type: z.literal("metrics"),
      sourceFilter: expression.optional(),
      metricFilter: expression.optional(),
    }),
    z.strictObject({
      type: z.enum(["usage", "fabric.usage"]),
      version: z
        .union([z.literal(2), z.literal(3), z.literal("2"), z.literal("3")], "2 or 3")
        .transform((version) => (Number(version) === 3 ? (3 as const) : (2 as const)))
        .prefault(2),
      include: names("counters").optional(),
    }),
  ],
  {
    error: `one of ${[...PLAIN_TYPES, "circuit", "entityChange", "entityCount", "metrics", "terminator", "usage"].sort().join(", ")}`,
  },
);

/** A checked subscription. */
export type EventSubscriptionConfig = z.infer<typeof eventSubscriptionSchema>;

const format = z.literal("json", "json").default("json");

function bounded(fallback: number, min: number, max: number) {
  return z.int(`a whole number from ${min} to ${max}`).min(min).max(max).default(fallback);
}

/** Events that may wait for a slow file or terminal. */
const bufferSize = bounded(10_000, 1, 1_000_000);

const handlerSchema = z.discriminatedUnion(
  "type",
  [
    z.strictObject({
      type: z.literal("file"),
      format,
      path: z.string("a file").min(1, "a file"),
      maxsizemb: bounded(10, 1, 1_000_000),
      maxbackups: bounded(0, 0, 1_000),
      bufferSize,
    }),
    z.strictObject({ type: z.literal("stdout"), format, bufferSize }),
    z.looseObject({ type: z.literal("amqp") }).refine(() => false, {
      message: "file or stdout: this controller writes to no message broker; have a shipper read the file",
      path: ["type"],
    }),
  ],
  { error: "file or stdout" },
);

/** The `events` section: by a name of the author's choice, what is told of and where it goes. */
export const eventsSchema = z
  .record(
    z.string(),
    z.strictObject({
      subscriptions: z.array(eventSubscriptionSchema, "a list of subscriptions").min(1, "at least one subscription"),
      handler: handlerSchema,
    }),
  )
  .default({});

/** Where the events of a section go. */
export type EventHandlerConfig = Exclude<z.infer<typeof handlerSchema>, { type: "amqp" }>;
