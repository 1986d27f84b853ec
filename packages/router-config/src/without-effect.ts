import type { Path } from "@sallyport/config-file";
import { sharedName } from "./meanings.ts";
import { PlainScalar } from "./plain-scalar.ts";
import { xgressKeys } from "./sections/xgress.ts";

/**
 * Keys that are accepted and have no effect, each with the reason. Warnings and the reference page are made from this list and use its names:
 * `listeners[edge]` for entries of one binding, a flow control key without its section.
 */
export const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  ha: "written by other programs; a router follows all controllers of a cluster in any case",
  plugins: "plug-ins of Go cannot be loaded",

  "ctrl.rateLimiter.timeout": "an answer is always waited for 30s",
  "ctrl.options.maxQueuedConnects": "only what listens limits the connections in their hello",
  "ctrl.options.maxOutstandingConnects": "only what listens limits the connections in their hello",
  "link.dialers[].options.maxQueuedConnects": "only what listens limits the connections in their hello",
  "link.dialers[].options.maxOutstandingConnects": "only what listens limits the connections in their hello",

  "edge.db": "sessions are not kept over a restart, the controllers send them again",
  "edge.dbSaveIntervalSeconds": "nothing is saved: see `edge.db`",

  "forwarder.unresponsiveLinkTimeout": "links are closed after `link.heartbeats.closeUnresponsiveTimeout`",
  "forwarder.latencyProbeInterval": "latency is measured by `link.heartbeats`",

  "connectEvents.maxQueuedEvents": "reports say how things are, changes are not queued",

  "transport.wss.readTimeout": "a silent SDK is found by `pingInterval` and `pongTimeout`",
  "transport.wss.writeTimeout": "`writeTimeout` of the listener's options counts",
  "transport.wss.idleTimeout": "a silent SDK is found by `pingInterval` and `pongTimeout`",
  "transport.wss.readBufferSize": "buffers are those of TLS",
  "transport.wss.writeBufferSize": "buffers are those of TLS",
  "transport.wss.enableCompression": "what is encrypted does not compress",
  "transport.westworld3": "that transport is gone from every router",
  "transport.dtls": "links and SDKs are not served over DTLS",
  "transport.handshakeTimeout": "it belongs to `dtls`",

  "web[].apis[].options": "the APIs have no options",

  "listeners[edge].options.lookupSessionTimeout": "the controller checks sessions when they are used",
  "listeners[edge].options.getSessionTimeout": "the controller checks sessions when they are used",
  "listeners[edge].options.mtu": "payloads are as long as what the SDK sent",
  "listeners[tunnel].address": "a tunneler has no address of its own",
  "listeners[tunnel].bind": "a tunneler has no address of its own",
  "listeners[].advertise": "nobody is told of such a listener",
  "listeners[].options.advertise": "nobody is told of such a listener",
  "listeners[tunnel].options.getCircuitTimeout": "a dial lasts as long as its service's config says, 5s without one",
  "listeners[transport_udp].options.mtu": "datagrams are not split",
  "listeners[proxy_udp].options.mtu": "datagrams are not split",
  "listeners[].options.connectTimeout": "a listener dials no targets: see `dialers`",

  "dialers[proxy]": "the binding only listens: its terminators are refused",
  "dialers[proxy_udp]": "the binding only listens: its terminators are refused",
  "dialers[edge]": "what SDKs host is always reached, with the options of the listener that they use",
  "dialers[tunnel].bind": "what the tunneler hosts is dialled from the address that its config says",
  "dialers[tunnel].options.connectTimeout": "the config of what is hosted says how long a dial lasts",
  "dialers[transport_udp].options.connectTimeout": "a UDP target is not waited for",
  "dialers[transport_udp].options.mtu": "datagrams are not split",
  "dialers[].options.getCircuitTimeout": "a dialer asks for no circuits",

  randomDrops: "payloads are not dropped on purpose",
  drop1InN: "it belongs to `randomDrops`",
  txQueueSize: "what waits for the local side is bounded by `rxBufferSize`",
  txPortalDupAckScale: "the patience grows by a fixed step",
};

/** Modes of the tunneler in which an option counts; those left out count in all. */
const TUNNEL_MODES: Readonly<Record<string, readonly string[]>> = {
  services: ["proxy"],
  resolver: ["tproxy"],
  dnsSvcIpRange: ["tproxy"],
  lanIf: ["tproxy"],
  udpCheckInterval: ["tproxy"],
  udpIdleTimeout: ["tproxy", "proxy"],
};
const DIALLED: ReadonlySet<string> = new Set(["transport", "transport_udp", "edge_transport", "edge", "tunnel"]);

/** A key of a file that changes nothing. */
export interface IdleKey {
  readonly path: Path;
  readonly reason: string;
}

/** Why a key changes nothing, by its name on the reference page; undefined when it has its effect. */
export function idleReason(name: string): string | undefined {
  const flow = /^(?:listeners|dialers)\[\w*\]\.options\.(\w+)$/.exec(name)?.[1];
  const general = name.replace(/^(listeners|dialers)\[\w+\]/, "$1[]");
  // What an edge listener advertises is what SDKs dial.
  const isHeld = /^listeners\[edge\]\.(?:options\.)?advertise$/.test(name);
  const names = [
    name.replace(/\[\]$/, ""),
    name,
    ...(isHeld ? [] : [general]),
    sharedName(name),
    flow !== undefined && flow in xgressKeys ? flow : "",
  ];
  return names.map((each) => WITHOUT_EFFECT[each]).find((reason) => reason !== undefined);
}

/** The keys of a file, as it was read or made by a program, that change nothing. */
export function idleKeys(root: unknown): IdleKey[] {
  const found: IdleKey[] = [];
  look(root, [], "", found);
  return found;
}

function look(value: unknown, path: Path, name: string, found: IdleKey[]): void {
  const reason = name === "" ? undefined : (idleReason(name) ?? conditionalReason(value, name));
  if (reason !== undefined) {
    found.push({ path, reason });
    return;
  }
  if (Array.isArray(value)) {
    const isByBinding = name === "listeners" || name === "dialers";
    for (const [i, each] of value.entries()) {
      look(each, [...path, i], `${name}[${isByBinding ? bindingOf(each) : ""}]`, found);
    }
  } else if (isMap(value)) {
    for (const [key, inner] of Object.entries(value))
      look(inner, [...path, key], name === "" ? key : `${name}.${key}`, found);
    if (name === "listeners[tunnel].options") tunnelKeys(value, path, found);
  }
}

function conditionalReason(value: unknown, name: string): string | undefined {
  const binding = /^dialers\[(\w+)\]$/.exec(name)?.[1];
  return binding === undefined || !isMap(value) || DIALLED.has(binding)
    ? undefined
    : `no terminator of the binding ${binding} can be dialled; those that can: ${[...DIALLED].join(", ")}`;
}

function tunnelKeys(options: Readonly<Record<string, unknown>>, path: Path, found: IdleKey[]): void {
  const mode = (textOf(options.mode) ?? "host").split(":")[0] ?? "";
  for (const key of Object.keys(options)) {
    const modes = TUNNEL_MODES[key];
    if (modes === undefined || modes.includes(mode)) continue;
    found.push({ path: [...path, key], reason: `the mode is ${mode}, and only ${modes.join(" and ")} uses it` });
  }
}

function bindingOf(entry: unknown): string {
  return (isMap(entry) ? textOf(entry.binding) : undefined) ?? "";
}

const textOf = (value: unknown): string | undefined =>
  value instanceof PlainScalar ? value.text : typeof value === "string" ? value : undefined;

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof PlainScalar);
