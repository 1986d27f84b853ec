import { OUT_QUEUE_SIZE } from "@sallyport/router-config";
import { type ChannelLimits, DEFAULT_MAX_PENDING } from "@sallyport/wire";

/** `options` of `ctrl`, of a link or of an edge listener; the part that every channel has. */
export interface ChannelOptions {
  readonly outQueueSize: number;
  readonly writeTimeout?: number | undefined;
  readonly maxQueuedConnects?: number | undefined;
  readonly maxOutstandingConnects?: number | undefined;
}

const MIB = 1024 * 1024;
/** The largest message has to fit. */
const LEAST_PENDING = 17 * MIB;

/**
 * Limits of one channel. What may wait for a peer that does not read is counted in bytes here: the standard of
 * `outQueueSize` stands for 64 MiB, twice the standard for twice as much, and 17 MiB are the least. `writeTimeout` 0 is none.
 */
export function channelLimits(options: ChannelOptions, standardQueue: number): ChannelLimits {
  const { outQueueSize, writeTimeout } = options;
  return {
    maxPending: Math.max(LEAST_PENDING, Math.round((outQueueSize / standardQueue) * DEFAULT_MAX_PENDING)),
    ...(writeTimeout === undefined || writeTimeout === 0 ? {} : { writeTimeoutMs: writeTimeout }),
  };
}

/** Limits of a listener's channels, and of the connections that may be in their hello at a time. */
export function listenerLimits(options: ChannelOptions): ChannelLimits & { readonly maxHellos?: number } {
  const { maxOutstandingConnects, maxQueuedConnects } = options;
  const limits = channelLimits(options, OUT_QUEUE_SIZE.channel);
  return maxOutstandingConnects === undefined
    ? limits
    : { ...limits, maxHellos: maxOutstandingConnects + (maxQueuedConnects ?? 0) };
}
