import type { EdgeListenerConfig, ForwarderConfig } from "@sallyport/router-config";
import { type XgressOptions, xgressDefaults } from "@sallyport/wire";
import type { EdgeOptions } from "../edge/options.ts";
import { type ForwarderOptions, forwarderDefaults } from "../forwarder/options.ts";
import { listenerLimits } from "./channel-limits.ts";

/** The `forwarder` section in the words of the forwarder. */
export function forwarderOptions(config: ForwarderConfig): ForwarderOptions {
  return {
    ...forwarderDefaults,
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
export function xgressOptions(options: Readonly<Record<string, unknown>>): XgressOptions {
  const names = Object.keys(xgressDefaults);
  const given = Object.fromEntries(Object.entries(options).filter(([name]) => names.includes(name)));
  const { circuitStartTimeout } = options;
  return {
    ...xgressDefaults,
    ...given,
    // A second and less means never.
    ...(typeof circuitStartTimeout === "number"
      ? { circuitStartTimeoutMs: circuitStartTimeout <= 1000 ? Number.POSITIVE_INFINITY : circuitStartTimeout }
      : {}),
  };
}

export function edgeOptions(listener: EdgeListenerConfig): Partial<EdgeOptions> {
  const { options, advertise } = listener;
  return {
    advertise: `${advertise.host.includes(":") ? `[${advertise.host}]` : advertise.host}:${advertise.port}`,
    lookupApiSessionTimeoutMs: options.lookupApiSessionTimeout,
    getCircuitTimeoutMs: options.getCircuitTimeout,
    connectTimeoutMs: options.connectTimeoutMs,
    limits: listenerLimits(options),
    xgress: xgressOptions(options),
  };
}
