import { isDeepStrictEqual } from "node:util";
import type { RouterConfig } from "@sallyport/router-config";

/** Keys that are read and change nothing, by section, with their defaults. Of what only dials, nobody connects to it. */
const DIALLING_KEYS = {
  maxQueuedConnects: [undefined, "only what listens limits the connections in their hello"],
  maxOutstandingConnects: [undefined, "only what listens limits the connections in their hello"],
} as const;
const RATE_KEYS = {
  timeout: [30_000, "an answer is always waited for 30 s"],
} as const;
const EVENT_KEYS = {
  maxQueuedEvents: [100_000, "reports say how things are, changes are not queued"],
} as const;
const WSS_KEYS = {
  readTimeout: [5, "a silent SDK is found by pingInterval and pongTimeout"],
  writeTimeout: [10, "use writeTimeout of the listener's options"],
  idleTimeout: [120, "a silent SDK is found by pingInterval and pongTimeout"],
  readBufferSize: [4096, "buffers are those of TLS"],
  writeBufferSize: [4096, "buffers are those of TLS"],
  enableCompression: [true, "what is encrypted does not compress"],
} as const;
const XGRESS_KEYS = {
  randomDrops: [false, "payloads are not dropped on purpose"],
  txQueueSize: [1, "what waits for the local side is bounded by rxBufferSize"],
  txPortalDupAckScale: [0.9, "duplicate acknowledgements make retransmission more patient by a fixed step"],
} as const;
const EDGE_KEYS = {
  mtu: [0, "payloads are as long as what the SDK sent"],
  lookupSessionTimeout: [5_000, "the controller checks sessions when they are used"],
} as const;
const DATAGRAM_KEYS = { mtu: [0, "datagrams are not split"] } as const;
const TUNNEL_KEYS = {
  getCircuitTimeout: [30_000, "a dial lasts as long as its service's config says, 5s without one"],
} as const;
const FORWARDER_KEYS = {
  unresponsiveLinkTimeout: [60_000, "links are closed after link.heartbeats.closeUnresponsiveTimeout"],
} as const;

type Keys = Readonly<Record<string, readonly [standard: unknown, why: string]>>;

/** What the file asks for that this router does not do, one line each: `key: why it does not act`. */
export function inactiveSettings(config: RouterConfig): string[] {
  const lines: string[] = [];
  const say = (when: boolean, line: string): void => {
    if (when) lines.push(line);
  };
  const sayChanged = (path: string, section: object, keys: Keys): void => {
    const given = new Map<string, unknown>(Object.entries(section));
    for (const [key, [standard, why]] of Object.entries(keys)) {
      say(given.has(key) && !isDeepStrictEqual(given.get(key), standard), `${path}.${key}: ${why}`);
    }
  };
  const { westworld3, dtls, handshakeTimeout, wss } = config.transport;
  say(westworld3 !== undefined, "transport.westworld3: that transport is gone from every router, its settings too");
  say(dtls !== undefined || handshakeTimeout !== undefined, "transport.dtls: links and SDKs are not served over DTLS");
  sayChanged("transport.wss", wss, WSS_KEYS);
  say(config.plugins.length > 0, "plugins: Go plug-ins cannot be loaded");
  sayChanged("ctrl.rateLimiter", config.ctrl.rateLimiter, RATE_KEYS);
  sayChanged("ctrl.options", config.ctrl.options, DIALLING_KEYS);
  sayChanged("connectEvents", config.connectEvents, EVENT_KEYS);
  say(config.edge?.db !== undefined, "edge.db: sessions are not kept over a restart, the controller sends them");
  for (const [i, dialer] of (config.link?.dialers ?? []).entries())
    sayChanged(`link.dialers[${i}].options`, dialer.options, DIALLING_KEYS);
  sayChanged("forwarder", config.forwarder, FORWARDER_KEYS);
  for (const [i, listener] of config.listeners.entries()) {
    if (listener.binding === "edge") {
      sayChanged(`listeners[${i}].options`, listener.options, { ...XGRESS_KEYS, ...EDGE_KEYS });
    } else {
      const more = listener.binding === "tunnel" ? TUNNEL_KEYS : isDatagram(listener.binding) ? DATAGRAM_KEYS : {};
      sayChanged(`listeners[${i}].options`, listener.options, { ...XGRESS_KEYS, ...more });
    }
  }
  for (const [i, { binding, options }] of config.dialers.entries()) {
    if (DIALED.has(binding)) {
      sayChanged(`dialers[${i}].options`, options, { ...XGRESS_KEYS, ...(isDatagram(binding) ? DATAGRAM_KEYS : {}) });
    } else lines.push(`dialers[${binding}]: terminators of this binding are not dialled`);
  }
  return lines;
}

const DIALED = new Set(["edge", "tunnel", "transport", "transport_udp", "edge_transport"]);

function isDatagram(binding: string): boolean {
  return binding === "transport_udp" || binding === "proxy_udp";
}
