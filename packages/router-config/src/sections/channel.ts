import { HELLO_TIMEOUT_MS } from "@sallyport/wire";
import { z } from "zod";
import { boolean, decimal, dialled, duration, integer, name, refuse, section } from "../scalars.ts";

/** Defaults of `outQueueSize`: of control channels, and of the channels of links and SDKs. */
export const OUT_QUEUE_SIZE = { control: 4, channel: 64 } as const;

/**
 * Options of a channel, for which `outQueueSize` is the standard; `bounded`: those of `ctrl` and edge listeners. Without
 * the two limits on connects a listener has its own, which is higher.
 */
export const channelKeys = (o: { outQueueSize: number; bounded: boolean }) => ({
  // Files are full of the default of control channels where links and SDKs are meant to have theirs.
  outQueueSize: decimal({ min: 1 })
    .default(o.outQueueSize)
    .transform((size) => (size === OUT_QUEUE_SIZE.control ? o.outQueueSize : size)),
  maxQueuedConnects: integer(o.bounded ? { min: 1, max: 5000 } : { min: 1 }).optional(),
  maxOutstandingConnects: integer(o.bounded ? { min: 1, max: 1000 } : { min: 1 }).optional(),
  connectTimeoutMs: integer(o.bounded ? { min: 30, max: 60_000, unit: "ms" } : { min: 0, unit: "ms" }).default(
    HELLO_TIMEOUT_MS,
  ),
  writeTimeout: duration({ min: 0 }).optional(),
});

/** `options` of `ctrl` and of link listeners and dialers. */
export const channelOptions = (o: { outQueueSize: number; bounded: boolean }) => section(channelKeys(o)).prefault({});

/** Keys of `ctrl.heartbeats` and `link.heartbeats`; all in milliseconds once read. */
export const heartbeatKeys = (closeUnresponsive: number) => ({
  sendInterval: duration({ min: 1 }).default(10_000),
  checkInterval: duration({ min: 1 }).default(1000),
  closeUnresponsiveTimeout: duration({ min: 1 }).default(closeUnresponsive),
});

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
  const { minSize, maxSize } = limiter;
  if (minSize > maxSize) refuse(ctx, ["minSize"], `at most maxSize (${maxSize})`, minSize);
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
