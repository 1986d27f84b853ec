import { z } from "zod";
import { PlainScalar } from "./plain-scalar.ts";
import { boolean, duration, hostPort, integer, oneOf, scalar, text } from "./scalars.ts";
import { ignored, section } from "./section.ts";
import { ctrl } from "./sections/ctrl.ts";
import { edge } from "./sections/edge.ts";
import { forwarder } from "./sections/forwarder.ts";
import { csr, identity } from "./sections/identity.ts";
import { link } from "./sections/link.ts";
import { dialers, listeners } from "./sections/listeners.ts";
import { healthChecks, metrics, profile, trace, web } from "./sections/observe.ts";
import { transport } from "./sections/transport.ts";

const version = scalar<3, 3>("3, the only version of this file", (input) =>
  (input instanceof PlainScalar ? input.value : input) === 3 ? 3 : undefined,
);

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
  if (value.type === "none" || value.address !== undefined) return;
  ctx.addIssue({
    code: "custom",
    path: ["address"],
    params: { expected: "<host>:<port> of the proxy" },
    input: undefined,
  });
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
  tls: section({ handshakeTimeout: duration({ min: 1 }).default(5000) }).prefault({}),
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
