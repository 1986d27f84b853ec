import { HANDSHAKE_TIMEOUT_MS } from "@sallyport/wire";
import { z } from "zod";
import { PlainScalar } from "./document.ts";
import {
  boolean,
  duration,
  durationOrMs,
  hostPort,
  ignored,
  integer,
  name,
  oneOf,
  refuse,
  scalar,
  section,
  text,
} from "./scalars.ts";
import { ctrl } from "./sections/channel.ts";
import { csr, identity } from "./sections/identity.ts";
import { link } from "./sections/link.ts";
import { dialers, listeners } from "./sections/listeners.ts";
import { healthChecks, metrics, profile, trace, web } from "./sections/observe.ts";

const seconds = (standard: number) => integer({ min: 1, max: 86_400 }).default(standard);
const bytes = () => integer({ min: 1 }).default(4096);

/** Web sockets of `wss` listeners; times in seconds. */
const webSockets = section({
  handshakeTimeout: seconds(10),
  readTimeout: seconds(5),
  writeTimeout: seconds(10),
  idleTimeout: seconds(120),
  pongTimeout: seconds(60),
  pingInterval: seconds(54),
  readBufferSize: bytes(),
  writeBufferSize: bytes(),
  enableCompression: boolean().default(true),
  identity: identity.optional(),
});

/** A transport that no longer exists; its settings are read so that old files go on to work, and change nothing. */
const westworld3 = section({
  profile_version: integer({ min: 1, max: 1 }).optional(),
  tx_portal_min_sz: integer({ min: 1 }).optional(),
  tx_portal_max_sz: integer({ min: 1 }).optional(),
  instrument: section({
    name: text().optional(),
    path: text().optional(),
    snapshot_ms: integer({ min: 1, unit: "ms" }).optional(),
    enabled: boolean().optional(),
  }).optional(),
});

/** Tuning of transports. Specification: "transport". */
export const transport = section({
  wss: webSockets.optional(),
  /** OpenZiti's generator writes it, and its router ignores it; here it counts as `wss`. */
  ws: webSockets.optional(),
  westworld3: westworld3.optional(),
  dtls: z.record(z.string(), z.unknown(), "a mapping").optional(),
  handshakeTimeout: duration({ min: 1 }).optional(),
}).transform(({ wss, ws, ...rest }) => ({ ...rest, wss: wss ?? ws ?? webSockets.parse({}) }));

const version = scalar<3, 3>("3, the only version of this file", (input) =>
  (input instanceof PlainScalar ? input.value : input) === 3 ? 3 : undefined,
);

/** Present, even empty, to enable SDK connectivity. Specification: "edge". */
const edge = section({
  db: name("a file path").optional(),
  dbSaveIntervalSeconds: integer().default(30),
  heartbeatIntervalSeconds: integer().default(60),
  sessionValidateChunkSize: integer({ min: 1 }).default(1000),
  sessionValidateMinInterval: duration({ min: 0 }).default(250),
  sessionValidateMaxInterval: duration({ min: 0 }).default(1500),
  apiProxy: section({ listener: hostPort(), upstream: hostPort() }).optional(),
  csr: csr.optional(),
}).transform((value) => ({
  ...value,
  dbSaveIntervalSeconds: Math.max(30, value.dbSaveIntervalSeconds),
  heartbeatIntervalSeconds:
    value.heartbeatIntervalSeconds < 10 || value.heartbeatIntervalSeconds > 60 ? 60 : value.heartbeatIntervalSeconds,
}));

/** Of a router without the section. */
export const EDGE_DEFAULTS = edge.parse({});

const ms = (standard: number) => integer({ unit: "ms" }).default(standard);
const MIB = 1024 * 1024;

/** Forwarding, queues and workers. Specification: "forwarder" and "Limits". */
const forwarder = section({
  faultTxInterval: ms(15_000),
  idleCircuitTimeout: ms(60_000),
  idleTxInterval: ms(60_000),
  linkDialQueueLength: integer({ min: 1, max: 10_000 }).default(1000),
  linkDialWorkerCount: integer({ min: 1, max: 10_000 }).default(32),
  rateLimitedQueueLength: integer({ min: 1, max: 50_000 }).default(5000),
  rateLimitedWorkerCount: integer({ min: 1, max: 10_000 }).default(5),
  xgressCloseCheckInterval: integer({ min: 0, unit: "ms" }).default(5000),
  xgressDialDwellTime: integer({ min: 0, unit: "ms" }).default(0),
  xgressDialQueueLength: integer({ min: 1, max: 10_000 }).default(1000),
  xgressDialWorkerCount: integer({ min: 1, max: 10_000 }).default(128),
  unresponsiveLinkTimeout: durationOrMs({ min: 5000 }).default(60_000),
  circuitMemory: integer({ min: 4 * MIB, max: 4096 * MIB, unit: "bytes" }).default(24 * MIB),
  latencyProbeInterval: ignored(),
});

const clamp = (value: number, min: number, max: number) => Math.min(Math.max(value, min), max);

const connectEvents = section({
  enabled: boolean().default(true),
  batchInterval: duration().default(3000),
  fullSyncInterval: duration().default(300_000),
  maxQueuedEvents: integer().default(100_000),
}).transform((value) => ({
  enabled: value.enabled,
  batchInterval: clamp(value.batchInterval, 250, 600_000),
  fullSyncInterval:
    value.fullSyncInterval < 250 ? 1000 : value.fullSyncInterval > 600_000 ? 86_400_000 : value.fullSyncInterval,
  maxQueuedEvents: clamp(value.maxQueuedEvents, 0, 10_000_000),
}));

const proxy = section({
  type: oneOf("http", "none"),
  address: hostPort().optional(),
  username: text().optional(),
  password: text().optional(),
}).superRefine((value, ctx) => {
  if (value.type === "http" && value.address === undefined) refuse(ctx, ["address"], "<host>:<port> of the proxy");
});

/**
 * The whole file, one key per section, with every default and bound. What it yields is complete: durations are
 * milliseconds, addresses are parsed, `address`/`bind` and the two forms of `advertise` are one.
 * Specification: "Edge Router Configuration File".
 */
export const routerConfigSchema = section({
  v: version,
  identity,
  ctrl,
  csr: csr.optional(),
  edge: edge.optional(),
  link: link.optional(),
  dialers: dialers.default([]),
  listeners: listeners.default([]),
  forwarder: forwarder.prefault({}),
  metrics: metrics.prefault({}),
  healthChecks: healthChecks.prefault({}),
  web: web.default([]),
  trace: trace.optional(),
  profile: profile.optional(),
  transport: transport.prefault({}),
  tls: section({ handshakeTimeout: duration({ min: 1 }).default(HANDSHAKE_TIMEOUT_MS) }).prefault({}),
  connectEvents: connectEvents.prefault({}),
  interfaceDiscovery: section({
    disabled: boolean().default(false),
    checkInterval: duration({ min: 1 }).default(60_000),
    minReportInterval: duration({ min: 1 }).default(86_400_000),
  }).prefault({}),
  proxy: proxy.optional(),
  shutdown: section({ drainTimeout: duration({ min: 0 }).default(20_000) }).prefault({}),
  plugins: z.array(z.unknown(), "a list").default([]),
  enableDebugOps: boolean().default(false),
  ha: ignored(),
}).transform(({ ha: _ha, csr: root, edge: edgeSection, ...rest }) => {
  const { csr: deprecated, ...edgeRest } = edgeSection ?? { csr: undefined };
  return {
    ...rest,
    edge: edgeSection === undefined ? undefined : (edgeRest as Omit<typeof edgeSection, "csr">),
    /** Root `csr`, else the deprecated `edge.csr`; without either the router can neither enroll nor renew. */
    csr: root ?? deprecated,
  };
});

/** A complete, checked configuration. */
export type RouterConfig = z.output<typeof routerConfigSchema>;

/** The file as a program writes it: only `v`, `identity` and `ctrl` are required, everything else has a default. */
export type RouterConfigFile = z.input<typeof routerConfigSchema>;
export type EdgeListenerConfig = Extract<RouterConfig["listeners"][number], { binding: "edge" }>;
export type LinkConfig = NonNullable<RouterConfig["link"]>;
export type LinkListenerConfig = LinkConfig["listeners"][number];
export type LinkDialerConfig = LinkConfig["dialers"][number];
export type ForwarderConfig = RouterConfig["forwarder"];
/** Flow control of a circuit's end: the part of `options` that every listener and dialer has. */
export type FlowConfig = RouterConfig["dialers"][number]["options"];
export type CsrConfig = NonNullable<RouterConfig["csr"]>;
