import { HELLO_TIMEOUT_MS } from "@sallyport/wire";
import { decimal, duration, integer } from "../scalars.ts";
import { section } from "../section.ts";

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
