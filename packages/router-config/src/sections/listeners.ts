import { type Address, xgressDefaults } from "@sallyport/wire";
import { z } from "zod";
import {
  address,
  advertised,
  boolean,
  cidr,
  decimal,
  duration,
  ignored,
  integer,
  name,
  refuse,
  scalar,
  section,
  text,
} from "../scalars.ts";
import { TUNNEL_DEFAULTS } from "../tunnel-defaults.ts";
import { channelKeys, OUT_QUEUE_SIZE } from "./channel.ts";

/** Flow control of a circuit's end, shared by all bindings. Specification: "listeners", "dialers" (`options`). */
export const xgressKeys = {
  mtu: integer({ min: 0 }).default(0),
  randomDrops: boolean().default(false),
  drop1InN: integer({ min: 1 }).default(100),
  txQueueSize: integer({ min: 1 }).default(1),
  txPortalStartSize: integer({ min: 1 }).default(xgressDefaults.txPortalStartSize),
  txPortalMinSize: integer({ min: 1 }).default(xgressDefaults.txPortalMinSize),
  txPortalMaxSize: integer({ min: 1 }).default(xgressDefaults.txPortalMaxSize),
  txPortalIncreaseThresh: integer({ min: 0 }).default(xgressDefaults.txPortalIncreaseThresh),
  txPortalIncreaseScale: decimal({ min: 0 }).default(xgressDefaults.txPortalIncreaseScale),
  txPortalRetxThresh: integer({ min: 0 }).default(xgressDefaults.txPortalRetxThresh),
  txPortalRetxScale: decimal({ min: 0 }).default(xgressDefaults.txPortalRetxScale),
  txPortalDupAckThresh: integer({ min: 0 }).default(xgressDefaults.txPortalDupAckThresh),
  txPortalDupAckScale: decimal({ min: 0 }).default(0.9),
  rxBufferSize: integer({ min: 1 }).default(xgressDefaults.rxBufferSize),
  retxStartMs: integer({ min: 1, unit: "ms" }).default(xgressDefaults.retxStartMs),
  retxScale: decimal({ min: 0 }).default(xgressDefaults.retxScale),
  retxAddMs: integer({ min: 0, unit: "ms" }).default(xgressDefaults.retxAddMs),
  retxMaxMs: integer({ min: 1, unit: "ms" }).default(xgressDefaults.retxMaxMs),
  maxRttScale: integer({ min: 0 }).default(xgressDefaults.maxRttScale),
  maxCloseWaitMs: integer({ min: 0, unit: "ms" }).default(xgressDefaults.maxCloseWaitMs),
  getCircuitTimeout: duration({ min: 1 }).default(30_000),
  circuitStartTimeout: duration({ min: 0 }).default(xgressDefaults.circuitStartTimeoutMs),
  connectTimeout: duration({ min: 0 }).default(0),
};

const binding = <const T extends string>(value: T) => z.literal(value);

/** Address of a listener: `address` or `bind`. */
function listening(entry: { address?: Address | undefined; bind?: Address | undefined }, ctx: z.core.$RefinementCtx) {
  return entry.address ?? entry.bind ?? refuse(ctx, ["address"], "a listening address such as tls:0.0.0.0:3022");
}

const edgeOptions = section({
  ...channelKeys({ outQueueSize: OUT_QUEUE_SIZE.channel, bounded: true }),
  ...xgressKeys,
  advertise: advertised().optional(),
  lookupApiSessionTimeout: duration({ min: 0 }).default(5000),
  lookupSessionTimeout: duration({ min: 0 }).default(5000),
  workers: integer({ min: 0, max: 64 }).default(0),
  getSessionTimeout: ignored(),
});

const edge = section({
  binding: binding("edge"),
  address: address("tls", "wss").optional(),
  bind: address("tls", "wss").optional(),
  advertise: advertised().optional(),
  options: edgeOptions.prefault({}),
}).transform((entry, ctx) => {
  const { advertise: inOptions, getSessionTimeout: _unused, ...options } = entry.options;
  const advertise =
    inOptions ?? entry.advertise ?? refuse(ctx, ["options", "advertise"], "<host>:<port> that SDKs can reach");
  const address = listening(entry, ctx);
  if (options.workers > 0 && address.protocol !== "tls") {
    refuse(ctx, ["options", "workers"], `0 where the address is ${address.protocol}: threads take only tls`);
  }
  return {
    binding: entry.binding,
    address,
    /** What SDKs dial; the protocol is that of `address`. */
    advertise: { host: advertise.host, port: advertise.port },
    options,
  };
});

const bound = <const T extends string>(kind: T, protocols: readonly string[]) => ({
  binding: binding(kind),
  address: address(...protocols).optional(),
  bind: address(...protocols).optional(),
  advertise: advertised().optional(),
  options: section({ ...xgressKeys, advertise: advertised().optional() }).prefault({}),
});

const plain = <const T extends string>(kind: T, protocols: readonly string[]) =>
  section(bound(kind, protocols)).transform((entry, ctx) => {
    const { binding, options } = entry;
    return { binding, address: listening(entry, ctx), options };
  });

const proxy = <const T extends string>(kind: T, protocols: readonly string[]) =>
  section({ ...bound(kind, protocols), service: name("the service that every connection goes to") }).transform(
    (entry, ctx) => {
      const { binding, service, options } = entry;
      return { binding, address: listening(entry, ctx), service, options };
    },
  );

const tunnelMode = scalar<string, string>("one of host, proxy, tproxy", (input) =>
  typeof input === "string" && /^(?:host|proxy|tproxy|tproxy:.+)$/.test(input) ? input : undefined,
);

export interface ProxiedService {
  readonly service: string;
  readonly port: number;
  readonly protocol: "tcp" | "udp";
}

const proxyServices = z.array(
  scalar<string, ProxiedService>("<service>:<port>", (input) => {
    const match = /^(.+?):(\d{1,5})(?::(tcp|udp))?$/.exec(typeof input === "string" ? input : "");
    const port = Number(match?.[2]);
    if (match === null || port < 1 || port > 65_535) return undefined;
    return { service: match[1] ?? "", port, protocol: match[3] === "udp" ? "udp" : "tcp" };
  }),
  "a list of <service>:<port>",
);

/** A duration; shorter than `min` counts as the standard. */
const atLeast = (min: number, standard: number) =>
  duration()
    .default(standard)
    .transform((ms) => (ms < min ? standard : ms));

const tunnel = section({
  binding: binding("tunnel"),
  address: ignored(),
  bind: ignored(),
  advertise: ignored(),
  options: section({
    ...xgressKeys,
    mode: tunnelMode.default("host"),
    resolver: text().default(TUNNEL_DEFAULTS.resolver),
    dnsSvcIpRange: cidr().default(TUNNEL_DEFAULTS.dnsSvcIpRange),
    services: proxyServices.default([]),
    lanIf: text().optional(),
    svcPollRate: duration({ min: 1 }).default(TUNNEL_DEFAULTS.servicePollMs),
    udpIdleTimeout: atLeast(TUNNEL_DEFAULTS.minUdpIdleTimeoutMs, TUNNEL_DEFAULTS.udpIdleTimeoutMs),
    udpCheckInterval: atLeast(TUNNEL_DEFAULTS.minUdpCheckIntervalMs, TUNNEL_DEFAULTS.udpCheckIntervalMs),
    advertise: ignored(),
  }).prefault({}),
}).transform(({ binding, options }) => ({ binding, options }));

/** Interfaces for outside clients. Specification: "listeners". */
export const listeners = z.array(
  z.discriminatedUnion("binding", [
    edge,
    tunnel,
    plain("transport", ["tls", "tcp", "udp"]),
    plain("transport_udp", ["udp", "udp4", "udp6"]),
    proxy("proxy", ["tls", "tcp"]),
    proxy("proxy_udp", ["udp"]),
  ]),
  "a list",
);

/** Which bindings may reach targets, and with what options. Specification: "dialers". */
export const dialers = z.array(
  section({
    binding: name("a binding such as transport"),
    options: section(xgressKeys).prefault({}),
    bind: name("a network interface or local IP").optional(),
  }),
  "a list",
);
