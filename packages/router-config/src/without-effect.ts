import type { Path } from "@sallyport/config-file";
import { PlainScalar } from "./document.ts";
import { sharedName } from "./meanings.ts";
import { xgressKeys } from "./sections/listeners.ts";

/**
 * Keys that are accepted and have no effect, each with the reason. Warnings and the reference page are made from this list and use its names:
 * `listeners[edge]` for entries of one binding, a flow control key without its section.
 */
export const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  ha: "other programs write it; a router always follows all controllers of a cluster",
  plugins: "plug-ins of Go cannot be loaded",

  "ctrl.rateLimiter.timeout": "the router always waits 30s for an answer",
  "ctrl.options.maxQueuedConnects": "only listeners limit the connections in their hello",
  "ctrl.options.maxOutstandingConnects": "only listeners limit the connections in their hello",
  "link.dialers[].options.maxQueuedConnects": "only listeners limit the connections in their hello",
  "link.dialers[].options.maxOutstandingConnects": "only listeners limit the connections in their hello",

  "edge.db": "sessions are not kept over a restart; the controllers send them again",
  "edge.dbSaveIntervalSeconds": "the router saves no sessions: see `edge.db`",

  "forwarder.unresponsiveLinkTimeout": "`link.heartbeats.closeUnresponsiveTimeout` closes links",
  "forwarder.latencyProbeInterval": "`link.heartbeats` measure the latency",

  "connectEvents.maxQueuedEvents": "reports contain the current state; changes are not queued",

  "transport.wss.readTimeout": "`pingInterval` and `pongTimeout` detect a silent SDK",
  "transport.wss.writeTimeout": "`writeTimeout` of the listener's options applies",
  "transport.wss.idleTimeout": "`pingInterval` and `pongTimeout` detect a silent SDK",
  "transport.wss.readBufferSize": "buffers are those of TLS",
  "transport.wss.writeBufferSize": "buffers are those of TLS",
  "transport.wss.enableCompression": "encrypted data does not compress",
  "transport.westworld3": "no router implements this transport any more",
  "transport.dtls": "the router does not support DTLS for links and SDKs",
  "transport.handshakeTimeout": "it belongs to `dtls`",

  "web[].apis[].options": "the APIs have no options",

  "listeners[edge].options.lookupSessionTimeout": "the controller checks sessions at each use",
  "listeners[edge].options.getSessionTimeout": "the controller checks sessions at each use",
  "listeners[edge].options.mtu": "payloads have the length that the SDK sent",
  "listeners[tunnel].address": "a tunneler has no listening address",
  "listeners[tunnel].bind": "a tunneler has no listening address",
  "listeners[].advertise": "the router does not announce such a listener",
  "listeners[].options.advertise": "the router does not announce such a listener",
  "listeners[tunnel].options.getCircuitTimeout": "the service's config limits a dial, 5s without one",
  "listeners[transport_udp].options.mtu": "datagrams are not split",
  "listeners[proxy_udp].options.mtu": "datagrams are not split",
  "listeners[].options.connectTimeout": "a listener dials no targets: see `dialers`",

  "dialers[proxy]": "the binding only listens: its terminators are refused",
  "dialers[proxy_udp]": "the binding only listens: its terminators are refused",
  "dialers[edge]": "services that SDKs host are always reachable, with the options of their listener",
  "dialers[tunnel].bind": "the service's config sets the source address of the tunneler's targets",
  "dialers[tunnel].options.connectTimeout": "the hosted service's config limits a dial",
  "dialers[transport_udp].options.connectTimeout": "a UDP target needs no connection",
  "dialers[transport_udp].options.mtu": "datagrams are not split",
  "dialers[].options.getCircuitTimeout": "a dialer requests no circuits",

  randomDrops: "the router never drops payloads on purpose",
  drop1InN: "it belongs to `randomDrops`",
  txQueueSize: "`rxBufferSize` limits the data that waits for the local side",
  txPortalDupAckScale: "the timeout grows by a fixed step",
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
