import type { RouterConfig } from "@sallyport/router-config";
import { type Address, formatAddress, HandshakeTurns, type Logger, TlsPort } from "@sallyport/wire";
import type { RouterIdentity } from "../config/router-identity.ts";
import { type EdgeCounters, edgeCounters } from "../edge/edge-counters.ts";
import type { Histogram } from "../metrics/histogram.ts";
import type { WorkPool } from "../metrics/work-pool.ts";

export type Stop = () => void | Promise<void>;

/** What every part of the router is made from. A part that starts something pushes how it is stopped at once. */
export interface Assembly {
  readonly config: RouterConfig;
  readonly identity: RouterIdentity;
  readonly routerId: string;
  /** The configuration file; the endpoints file stands beside it unless configured. */
  readonly configFile: string;
  /** Where file names in the configuration are relative to: the working directory. */
  readonly baseDir: string;
  readonly log: Logger;
  /** TLS ports by address: links and SDKs may share one. */
  readonly ports: ListeningPorts;
  /** What addresses may cost in handshakes, on all ports together. */
  readonly turns: HandshakeTurns;
  /** What parts count for the reports. */
  readonly counts: RouterCounts;
  /** Called in reverse order when the router stops, and when its start fails. */
  readonly stops: Stop[];
}

export function assembly(o: Omit<Assembly, "routerId" | "ports" | "turns" | "counts">): Assembly {
  const { config, identity, log, stops } = o;
  const turns = new HandshakeTurns();
  const counts = { edge: edgeCounters(), pools: new Map(), timers: new Map(), gauges: new Map() };
  const ports = new ListeningPorts({ identity, handshakeTimeoutMs: config.tls.handshakeTimeout, turns, log, stops });
  return { ...o, routerId: identity.current.id, ports, turns, counts };
}

/** Where the parts of a router leave what they count; made once, before them. What reads it does so much later. */
export interface RouterCounts {
  readonly edge: EdgeCounters;
  /** By name: `link.dialer`, `route.handler`, … */
  readonly pools: Map<string, WorkPool>;
  /** Durations in nanoseconds, by the name of their timer. */
  readonly timers: Map<string, Histogram>;
  /** What has a value at every moment, by name. */
  readonly gauges: Map<string, () => number>;
}

type ListeningPortsOptions = Pick<Assembly, "identity" | "turns" | "log" | "stops"> & {
  readonly handshakeTimeoutMs: number;
};

/** The router's TLS ports, one per address, each opened when it is first asked for. They follow the identity. */
class ListeningPorts {
  readonly #o: ListeningPortsOptions;
  readonly #ports = new Map<string, TlsPort>();

  constructor(options: ListeningPortsOptions) {
    this.#o = options;
    options.identity.onChange((next) => {
      for (const port of this.#ports.values()) port.setIdentity(next);
    });
  }

  /** @throws what listening throws */
  async at(address: Address): Promise<TlsPort> {
    const { identity, handshakeTimeoutMs, turns, log, stops } = this.#o;
    const host = address.host === "" ? "::" : address.host;
    const name = formatAddress({ ...address, host });
    const known = this.#ports.get(name);
    if (known !== undefined) return known;
    const port = await TlsPort.listen({
      host,
      port: address.port,
      identity: identity.current,
      handshakeTimeoutMs,
      turns,
      log,
    });
    this.#ports.set(name, port);
    stops.push(() => port.close());
    log.info({ address: name, port: port.port }, "listening");
    return port;
  }
}
