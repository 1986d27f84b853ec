import type { EdgeListenerConfig, FlowConfig, ForwarderConfig } from "@sallyport/router-config";
import { formatHostPort, type XgressOptions, xgressDefaults } from "@sallyport/wire";
import type { EdgeSettings } from "../edge/options.ts";
import { type ForwarderOptions, TRANSIT_BUFFER_BYTES } from "../forwarder/options.ts";
import { listenerLimits } from "./channel-limits.ts";

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
