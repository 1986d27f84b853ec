import type { RouterConfig } from "@sallyport/router-config";
import { HandshakeTurns, type Logger } from "@sallyport/wire";
import type { RouterIdentity } from "../config/router-identity.ts";
import { type RouterCounts, routerCounts } from "../metrics/counts.ts";
import { ListeningPorts } from "./listening-ports.ts";

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
  const ports = new ListeningPorts({ identity, handshakeTimeoutMs: config.tls.handshakeTimeout, turns, log, stops });
  return { ...o, routerId: identity.current.id, ports, turns, counts: routerCounts() };
}
