import { errorText, MAX_TIMER_MS } from "@sallyport/async";
import type { PrecedenceName } from "@sallyport/wire";
import { z } from "zod";
import { AllowedAddresses, Translations } from "../host/addresses.ts";
import type { PortRange, Protocol } from "../interceptor.ts";
import { type IpRange, parsePrefix } from "../ip-range.ts";
import type { OverlayService } from "../overlay.ts";
import { type HealthCheckConfig, healthChecks, httpCheck, portCheck } from "./health-config.ts";
import { DEFAULT_CONNECT_TIMEOUT_MS } from "./intercept-config.ts";
import {
  anyCase,
  decodeConfig,
  duration,
  looseObject,
  port,
  portRange,
  protocol,
  ServiceConfigError,
} from "./loose.ts";

/** One value, or those that dialers may ask for. */
export type FixedOr<T, A> = { readonly fixed: T } | { readonly allowed: A };

/** Where circuits of a terminator go to (docs/protocol/configs.md, "What a tunneler does with them"). */
export interface HostConfig {
  readonly protocol: FixedOr<Protocol, readonly Protocol[]>;
  readonly address: FixedOr<string, AllowedAddresses>;
  readonly port: FixedOr<number, readonly PortRange[]>;
  readonly translations: Translations;
  /** Addresses that dialers may have the connection come from. */
  readonly sourcePrefixes: readonly IpRange[];
  /** The same as they were written, for making them local. */
  readonly allowedSourceAddresses: readonly string[];
  readonly proxy?: { readonly host: string; readonly port: number } | undefined;
  readonly connectTimeoutMs: number;
  readonly cost?: number | undefined;
  readonly precedence?: PrecedenceName | undefined;
  readonly bindUsingEdgeIdentity: boolean;
  /** Template of the instance id. */
  readonly instance?: string | undefined;
  readonly checks: readonly HealthCheckConfig[];
}

const precedence = anyCase("default", "required", "failed");

const checkLists = { portChecks: z.array(portCheck).optional(), httpChecks: z.array(httpCheck).optional() };

const hostV1 = looseObject({
  protocol: protocol.optional(),
  forwardProtocol: z.boolean().optional(),
  allowedProtocols: z.array(protocol).optional(),
  address: z.string().min(1).optional(),
  forwardAddress: z.boolean().optional(),
  allowedAddresses: z.array(z.string().min(1)).optional(),
  port: port.optional(),
  forwardPort: z.boolean().optional(),
  allowedPortRanges: z.array(portRange).optional(),
  forwardAddressTranslations: z
    .array(looseObject({ from: z.string(), to: z.string(), prefixLength: z.int().min(0).max(128) }))
    .optional(),
  allowedSourceAddresses: z.array(z.string().min(1)).optional(),
  listenOptions: looseObject({
    bindUsingEdgeIdentity: z.boolean().optional(),
    connectTimeout: duration.optional(),
    connectTimeoutSeconds: z.int().min(0).optional(),
    cost: z.int().min(0).max(65_535).optional(),
    precedence: precedence.optional(),
    identity: z.string().optional(),
    maxConnections: z.int().optional(),
  }).optional(),
  proxy: looseObject({ type: z.literal("http"), address: z.string() }).optional(),
  ...checkLists,
});
type HostV1 = z.infer<typeof hostV1>;

const hostV2 = looseObject({ terminators: z.array(hostV1).min(1) });

const serverV1 = looseObject({ protocol: protocol.optional(), hostname: z.string().min(1), port, ...checkLists });

/**
 * The terminators that the first of a service's hosting configs asks for; undefined when there is none. One bad
 * terminator makes the whole config bad.
 *
 * @throws ServiceConfigError
 */
export function hostConfigs(service: OverlayService): HostConfig[] | undefined {
  const second = service.configs.get("host.v2");
  if (second !== undefined) {
    const { terminators } = decodeConfig("host.v2", hostV2, second);
    return terminators.map((each, i) => checked("host.v2", `terminators[${i}]`, each));
  }
  const first = service.configs.get("host.v1");
  if (first !== undefined) return [checked("host.v1", "", decodeConfig("host.v1", hostV1, first))];
  const server = service.configs.get("ziti-tunneler-server.v1");
  if (server === undefined) return undefined;
  const { hostname, ...rest } = decodeConfig("ziti-tunneler-server.v1", serverV1, server);
  return [checked("ziti-tunneler-server.v1", "", { ...rest, protocol: rest.protocol ?? "tcp", address: hostname })];
}

/** Everything that the shapes alone do not say. */
function checked(configType: string, base: string, c: HostV1): HostConfig {
  const fail = (key: string, reason: string) =>
    new ServiceConfigError(configType, base === "" ? key : `${base}.${key}`, reason);
  const attempt = <T>(key: string, work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw fail(key, errorText(error));
    }
  };
  const either = <T, A>(
    [key, fixed]: [string, T | undefined],
    [forward, isForwarded]: [string, boolean | undefined],
    [list, allowed = []]: [string, readonly A[] | undefined],
  ): FixedOr<T, readonly A[]> => {
    if (isForwarded === true) {
      if (allowed.length === 0) throw fail(list, `must not be empty with ${forward}: true`);
      return { allowed };
    }
    if (fixed === undefined) throw fail(key, `expected it, or ${forward}: true`);
    return { fixed };
  };
  const address = either(
    ["address", c.address],
    ["forwardAddress", c.forwardAddress],
    ["allowedAddresses", c.allowedAddresses],
  );
  const options = c.listenOptions;
  const seconds = options?.connectTimeoutSeconds ?? 0;
  const sources = c.allowedSourceAddresses ?? [];
  return {
    protocol: either(
      ["protocol", c.protocol],
      ["forwardProtocol", c.forwardProtocol],
      ["allowedProtocols", c.allowedProtocols],
    ),
    address:
      "fixed" in address
        ? address
        : { allowed: attempt("allowedAddresses", () => new AllowedAddresses(address.allowed)) },
    port: either(["port", c.port], ["forwardPort", c.forwardPort], ["allowedPortRanges", c.allowedPortRanges]),
    translations: attempt("forwardAddressTranslations", () => new Translations(c.forwardAddressTranslations ?? [])),
    sourcePrefixes: sources.map((source, i) => attempt(`allowedSourceAddresses[${i}]`, () => parsePrefix(source))),
    allowedSourceAddresses: sources,
    proxy: c.proxy === undefined ? undefined : attempt("proxy.address", () => proxyAddress(c.proxy?.address ?? "")),
    connectTimeoutMs: options?.connectTimeout || Math.min(seconds * 1_000, MAX_TIMER_MS) || DEFAULT_CONNECT_TIMEOUT_MS,
    cost: options?.cost,
    precedence: options?.precedence,
    bindUsingEdgeIdentity: options?.bindUsingEdgeIdentity ?? false,
    instance: options?.identity || undefined,
    checks: healthChecks(c.portChecks ?? [], c.httpChecks ?? []),
  };
}

function proxyAddress(address: string): { host: string; port: number } {
  const url = URL.canParse(`http://${address}`) ? new URL(`http://${address}`) : undefined;
  const portText = /:(\d+)$/.exec(address)?.[1];
  if (url === undefined || portText === undefined)
    throw new Error(`expected host:port, got ${JSON.stringify(address)}`);
  return { host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(portText) };
}
