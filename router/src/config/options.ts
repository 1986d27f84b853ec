import {
  type EdgeListenerConfig,
  type FlowConfig,
  type ForwarderConfig,
  type LinkListenerConfig,
  OUT_QUEUE_SIZE,
  type RouterConfig,
} from "@sallyport/router-config";
import {
  type ChannelLimits,
  DEFAULT_MAX_PENDING,
  formatHostPort,
  type HttpProxy,
  type XgressOptions,
  xgressDefaults,
} from "@sallyport/wire";
import type { EdgeSettings } from "../edge/options.ts";
import { type ForwarderOptions, TRANSIT_BUFFER_BYTES } from "../forwarder/options.ts";
import { interfaceOf } from "./network-interfaces.ts";

/** `options` of `ctrl`, of a link or of an edge listener; the part that every channel has. */
interface ChannelOptions {
  readonly outQueueSize: number;
  readonly writeTimeout?: number | undefined;
  readonly maxQueuedConnects?: number | undefined;
  readonly maxOutstandingConnects?: number | undefined;
}

/** The largest message has to fit. */
const MIN_PENDING = 17 * 1024 * 1024;

/**
 * Limits of one channel. What may wait for a peer that does not read is counted in bytes here: the standard of
 * `outQueueSize` stands for 64 MiB, twice the standard for twice as much, and 17 MiB are the least. `writeTimeout` 0 is none.
 */
export function channelLimits(options: ChannelOptions, standardQueue: number): ChannelLimits {
  const { outQueueSize, writeTimeout } = options;
  return {
    maxPending: Math.max(MIN_PENDING, Math.round((outQueueSize / standardQueue) * DEFAULT_MAX_PENDING)),
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

/** The `forwarder` section in the words of the forwarder. */
export function forwarderOptions(config: ForwarderConfig): ForwarderOptions {
  return {
    transitBufferBytes: TRANSIT_BUFFER_BYTES,
    faultTxIntervalMs: config.faultTxInterval,
    idleCircuitTimeoutMs: config.idleCircuitTimeout,
    idleTxIntervalMs: config.idleTxInterval,
    xgressCloseCheckIntervalMs: config.xgressCloseCheckInterval,
    xgressDialDwellTimeMs: config.xgressDialDwellTime,
    xgressDialQueueLength: config.xgressDialQueueLength,
    xgressDialWorkerCount: config.xgressDialWorkerCount,
    circuitMemoryBytes: config.circuitMemory,
  };
}

/** Flow control from the `options` of a listener or dialer. */
export function xgressOptions(options: FlowConfig): XgressOptions {
  const { circuitStartTimeout } = options;
  return {
    ...xgressDefaults,
    txPortalStartSize: options.txPortalStartSize,
    txPortalMinSize: options.txPortalMinSize,
    txPortalMaxSize: options.txPortalMaxSize,
    txPortalIncreaseThresh: options.txPortalIncreaseThresh,
    txPortalIncreaseScale: options.txPortalIncreaseScale,
    txPortalRetxThresh: options.txPortalRetxThresh,
    txPortalRetxScale: options.txPortalRetxScale,
    txPortalDupAckThresh: options.txPortalDupAckThresh,
    rxBufferSize: options.rxBufferSize,
    retxStartMs: options.retxStartMs,
    retxScale: options.retxScale,
    retxAddMs: options.retxAddMs,
    retxMaxMs: options.retxMaxMs,
    maxRttScale: options.maxRttScale,
    maxCloseWaitMs: options.maxCloseWaitMs,
    // A second and less means never.
    circuitStartTimeoutMs: circuitStartTimeout <= 1000 ? Number.POSITIVE_INFINITY : circuitStartTimeout,
  };
}

export function edgeOptions(listener: EdgeListenerConfig): EdgeSettings {
  const { options, advertise } = listener;
  return {
    advertise: formatHostPort(advertise),
    lookupApiSessionTimeoutMs: options.lookupApiSessionTimeout,
    getCircuitTimeoutMs: options.getCircuitTimeout,
    connectTimeoutMs: options.connectTimeoutMs,
    limits: listenerLimits(options),
    xgress: xgressOptions(options),
  };
}

/** The proxy through which controllers and other routers are dialled; services are always reached directly. */
export function proxyOf({ proxy }: Pick<RouterConfig, "proxy">): HttpProxy | undefined {
  if (proxy?.type !== "http" || proxy.address === undefined) return undefined;
  const { username, password } = proxy;
  return { ...proxy.address, username, password };
}

type LinkListener = LinkListenerConfig & { readonly localBinding: string };

export function edgeListeners(config: RouterConfig): EdgeListenerConfig[] {
  return config.listeners.filter((l): l is EdgeListenerConfig => l.binding === "edge");
}

/** Link listeners with the name of the interface they are bound to; empty for all interfaces. */
export function linkListeners(config: RouterConfig): LinkListener[] {
  return (config.link?.listeners ?? []).map((listener) => ({
    ...listener,
    localBinding: listener.bindInterface ?? interfaceOf(listener.bind.host) ?? "",
  }));
}
