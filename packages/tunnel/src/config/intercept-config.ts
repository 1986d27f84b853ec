import { MAX_TIMER_MS } from "@sallyport/async";
import { z } from "zod";
import type { PortRange, Protocol } from "../interceptor.ts";
import type { OverlayService } from "../overlay.ts";
import { decodeConfig, looseObject, port, portRange, protocol } from "./loose.ts";

/** How a service is dialled, and for which clients (docs/protocol/configs.md, "What a tunneler does with them"). */
export interface InterceptConfig {
  readonly protocols: readonly Protocol[];
  readonly addresses: readonly string[];
  readonly portRanges: readonly PortRange[];
  readonly allowedSourceAddresses: readonly string[];
  /** Template of the source address that the host is to use. */
  readonly sourceIp?: string | undefined;
  /** Template of the instance id to dial. */
  readonly instance?: string | undefined;
  readonly connectTimeoutMs: number;
}

export const DEFAULT_CONNECT_TIMEOUT_MS = 5_000;

const interceptV1 = looseObject({
  protocols: z.array(protocol).min(1),
  addresses: z.array(z.string().min(1)).min(1),
  portRanges: z.array(portRange).min(1),
  dialOptions: looseObject({
    identity: z.string().optional(),
    connectTimeoutSeconds: z.int().min(0).optional(),
  }).optional(),
  sourceIp: z.string().optional(),
  allowedSourceAddresses: z.array(z.string().min(1)).optional(),
});

const clientV1 = looseObject({ hostname: z.string().min(1), port });

/** What is intercepted for a service without a config, where interception goes by the service's name. */
export const withoutConfig: InterceptConfig = {
  protocols: ["tcp", "udp"],
  addresses: [],
  portRanges: [],
  allowedSourceAddresses: [],
  connectTimeoutMs: DEFAULT_CONNECT_TIMEOUT_MS,
};

/** The first of a service's configs that says how to intercept it; undefined when there is none. @throws ServiceConfigError */
export function interceptConfig(service: OverlayService): InterceptConfig | undefined {
  const intercept = service.configs.get("intercept.v1");
  if (intercept !== undefined) {
    const { dialOptions, ...rest } = decodeConfig("intercept.v1", interceptV1, intercept);
    const seconds = dialOptions?.connectTimeoutSeconds ?? 0;
    return {
      protocols: [...new Set(rest.protocols)],
      addresses: rest.addresses.map((address) => address.toLowerCase()),
      portRanges: rest.portRanges,
      allowedSourceAddresses: rest.allowedSourceAddresses ?? [],
      sourceIp: rest.sourceIp || undefined,
      instance: dialOptions?.identity || undefined,
      connectTimeoutMs: seconds > 0 ? Math.min(seconds * 1_000, MAX_TIMER_MS) : DEFAULT_CONNECT_TIMEOUT_MS,
    };
  }
  const client = service.configs.get("ziti-tunneler-client.v1");
  if (client === undefined) return undefined;
  const { hostname, port: only } = decodeConfig("ziti-tunneler-client.v1", clientV1, client);
  return { ...withoutConfig, addresses: [hostname.toLowerCase()], portRanges: [{ low: only, high: only }] };
}
