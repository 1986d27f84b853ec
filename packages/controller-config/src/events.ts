import { z } from "zod";
import { duration, file, integer } from "./values.ts";

/** Events that take no options; with the older names of some. */
const PLAIN_TYPES = [
  "alert",
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
const MAX_EXPRESSION_LENGTH = 256;

const flag = z.union([z.boolean(), z.enum(["true", "false"]).transform((text) => text === "true")]);

const names = (what: string) =>
  z
    .union([z.string(), z.array(z.string())], `a list of ${what}`)
    .transform((given) => (typeof given === "string" ? [given] : given))
    .refine((list) => list.length > 0, `at least one of the ${what}; leave include out to get all`);

const expression = z
  .string("a regular expression")
  .max(MAX_EXPRESSION_LENGTH, `a regular expression of at most ${MAX_EXPRESSION_LENGTH} characters`)
  .transform((text, context) => {
    try {
      return new RegExp(text);
    } catch {
      context.addIssue({ code: "custom", message: "a regular expression" });
      return z.NEVER;
    }
  });

const countInterval = duration("5m", "1s", "24h");

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

/** Events that may wait for a slow file or terminal. */
const bufferSize = integer(10_000, 1, 1_000_000);

const handlerSchema = z.discriminatedUnion(
  "type",
  [
    z.strictObject({
      type: z.literal("file"),
      format,
      path: file(),
      maxsizemb: integer(10, 1, 1_000_000),
      maxbackups: integer(0, 0, 1_000),
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
