import { isIP } from "node:net";
import { formatPath, type Path } from "@sallyport/config-file";
import type { RouterConfig } from "@sallyport/router-config";
import { type AlpnEntry, EDGE_ALPN, formatHostPort, type HostPort, LINK_ALPN, listenAdvice } from "@sallyport/wire";
import { WEB_ALPN } from "../../health/web-server.ts";
import type { Remark } from "../remark.ts";

/** One address that the router is to listen on. */
interface ListeningPlace extends HostPort {
  /** The key of the address. */
  readonly path: Path;
  readonly transport: "tcp" | "udp";
  /** What it takes of a TLS port that it may share; absent: it needs the port for itself. */
  readonly shares?: AlpnEntry;
  /** Why it needs the port for itself. */
  readonly why?: string;
}

/** Addresses of the file that cannot be listened on together: the second of each two, with the first one's key. */
export function takenPlaces(config: RouterConfig): Remark[] {
  const places = listeningPlaces(config);
  return places.flatMap((place, i) => {
    const clash = places.slice(0, i).flatMap((other) => clashOf(place, other) ?? [])[0];
    return clash === undefined ? [] : [{ path: place.path, text: clash }];
  });
}

/**
 * The setting by which the router was told to listen where it could not; undefined for any other error.
 * @param error as the system gives it, with `address` and `port`
 */
export function listeningProblem(config: RouterConfig, error: unknown): Remark | undefined {
  const { syscall = "", address, port } = error as NodeJS.ErrnoException & { address?: string; port?: number };
  if (!LISTENING.includes(syscall)) return undefined;
  const onPort = listeningPlaces(config).filter((place) => place.port === port);
  const place = onPort.find(({ host }) => host === address) ?? onPort[0];
  return place && { path: place.path, text: `cannot listen on ${formatHostPort(place)}: ${listenAdvice(error)}` };
}

/** System calls that fail where an address cannot be listened on. */
const LISTENING = ["listen", "bind"];

function listeningPlaces(config: RouterConfig): ListeningPlace[] {
  return [...linkPlaces(config), ...listenerPlaces(config), ...webPlaces(config)];
}

function linkPlaces({ link }: RouterConfig): ListeningPlace[] {
  return (link?.listeners ?? []).map(({ bind }, i) => ({
    path: ["link", "listeners", i, "bind"],
    ...onTcp(bind),
    shares: { protocols: [LINK_ALPN], acceptsNoAlpn: false },
  }));
}

function listenerPlaces({ listeners, edge }: RouterConfig): ListeningPlace[] {
  const places = listeners.flatMap((listener, i): ListeningPlace[] => {
    if (listener.binding === "tunnel") return [];
    const { binding, address } = listener;
    const path = ["listeners", i, "address"];
    if (address.protocol.startsWith("udp")) {
      const anyHost = address.protocol === "udp4" ? "0.0.0.0" : "::";
      return [{ path, transport: "udp", host: address.host === "" ? anyHost : address.host, port: address.port }];
    }
    const place = { path, ...onTcp(address) };
    if (binding !== "edge") {
      return [address.protocol === "tls" ? { ...place, shares: { protocols: [], acceptsNoAlpn: true } } : place];
    }
    if (address.protocol === "wss") return [{ ...place, why: "web sockets need a port of their own" }];
    if (listener.options.workers > 0) return [{ ...place, why: "a listener with workers needs a port of its own" }];
    return [{ ...place, shares: { protocols: [EDGE_ALPN], acceptsNoAlpn: true } }];
  });
  if (edge?.apiProxy !== undefined) {
    const why = "the API proxy needs a port of its own";
    places.push({ path: ["edge", "apiProxy", "listener"], ...onTcp(edge.apiProxy.listener), why });
  }
  return places;
}

function webPlaces({ web }: RouterConfig): ListeningPlace[] {
  return web.flatMap((server, i) =>
    server.bindPoints.map((point, n) => ({
      path: ["web", i, "bindPoints", n, "interface"],
      ...onTcp(point.interface),
      // Clients without ALPN are taken only where no other listener wants them.
      shares: { protocols: WEB_ALPN, acceptsNoAlpn: false },
    })),
  );
}

function onTcp({ host, port }: HostPort): Pick<ListeningPlace, "transport" | "host" | "port"> {
  return { transport: "tcp", host: host === "" ? "::" : host, port };
}

function clashOf(own: ListeningPlace, other: ListeningPlace): string | undefined {
  if (own.transport !== other.transport || own.port !== other.port) return undefined;
  const at = formatHostPort(own);
  const name = formatPath(other.path);
  if (own.shares !== undefined && other.shares !== undefined && own.host === other.host) {
    const { protocols } = other.shares;
    const shared = own.shares.protocols.find((protocol) => protocols.includes(protocol));
    if (shared !== undefined)
      return `${at} is the address of ${name} too, and both take ${shared}; choose another port`;
    return own.shares.acceptsNoAlpn && other.shares.acceptsNoAlpn
      ? `${at} is the address of ${name} too, and both take clients without ALPN; choose another port`
      : undefined;
  }
  // Port 0 is another free port for each.
  if (own.port === 0 || !overlap(own.host, other.host)) return undefined;
  const why = own.why ?? other.why ?? "only TLS listeners with the very same address share a port";
  return `${at} is taken by ${name}; ${why}`;
}

/** Whether two sockets on these hosts cannot have the same port. A name is only compared with itself: where it leads is not known here. */
function overlap(a: string, b: string): boolean {
  const covers = (wide: string, other: string): boolean => wide === "::" || (wide === "0.0.0.0" && isIP(other) === 4);
  return a === b || covers(a, b) || covers(b, a);
}
