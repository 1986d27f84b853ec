import { z } from "zod";
import { boolean, decimal, dialled, duration, integer, name } from "../scalars.ts";
import { section } from "../section.ts";
import { channelOptions, heartbeatKeys, OUT_QUEUE_SIZE } from "./channel.ts";

const rateLimiter = section({
  enabled: boolean().default(true),
  maxSize: integer({ min: 5, max: 1000 }).default(250),
  minSize: integer({ min: 5, max: 1000 }).default(5),
  timeout: duration({ min: 0 }).default(30_000),
  successThreshold: decimal({ min: 0, max: 1 }).default(0.9),
  increaseFactor: decimal({ min: 1 }).default(1.02),
  decreaseFactor: decimal({ above: 0, below: 1 }).default(0.9),
  increaseCheckInterval: integer({ min: 1 }).default(10),
  decreaseCheckInterval: integer({ min: 1 }).default(10),
}).superRefine((limiter, ctx) => {
  if (limiter.minSize > limiter.maxSize) {
    ctx.addIssue({
      code: "custom",
      path: ["minSize"],
      params: { expected: `at most maxSize (${limiter.maxSize})` },
      input: limiter.minSize,
    });
  }
});

/** How the router reaches its controllers. Specification: "ctrl". */
export const ctrl = section({
  endpoint: dialled("tls").optional(),
  endpoints: z.array(dialled("tls"), "a list of addresses").optional(),
  bind: name("a network interface or local IP").optional(),
  defaultRequestTimeout: duration({ min: 1 }).default(5000),
  heartbeats: section({ ...heartbeatKeys(30_000), unresponsiveAfter: duration({ min: 1 }).default(5000) }).prefault({}),
  options: channelOptions({ outQueueSize: OUT_QUEUE_SIZE.control, bounded: true }),
  startupTimeout: duration({ min: 0 }).default(30_000),
  endpointsFile: name("a file path").optional(),
  rateLimiter: rateLimiter.prefault({}),
}).transform(({ endpoint, endpoints, ...rest }) => ({
  ...rest,
  /** Addresses of the controllers; `endpoint` wins over `endpoints`. Empty: only those of the endpoints file. */
  endpoints: endpoint === undefined ? (endpoints ?? []) : [endpoint],
}));
