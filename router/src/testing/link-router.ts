import { type Identity, silentLogger, TlsPort } from "@sallyport/wire";
import type { PeerChange } from "../link/dial-state.ts";
import type { Link } from "../link/link.ts";
import { acceptLinks } from "../link/link-accept.ts";
import { LinkManager, type LinkReports, type ResolvedDialer } from "../link/link-manager.ts";

/** A link dialer that fails fast and tries again soon. */
export const dialer: ResolvedDialer = {
  binding: "transport",
  split: true,
  groups: ["default"],
  maxDefaultConnections: 3,
  maxAckConnections: 1,
  startupDelay: 0,
  healthyDialBackoff: { minRetryInterval: 50, maxRetryInterval: 200, retryBackoffFactor: 1 },
  unhealthyDialBackoff: { minRetryInterval: 60_000, maxRetryInterval: 60_000, retryBackoffFactor: 1 },
  options: { outQueueSize: 64, maxQueuedConnects: 1, maxOutstandingConnects: 16, connectTimeoutMs: 3000 },
  bindingName: "",
};

/** The links of one router: a port, an acceptor and a manager; controllers are what a test says. */
export interface LinkRouter {
  readonly id: string;
  readonly links: LinkManager;
  readonly forwarded: Map<string, Link>;
  readonly reported: [string, Link][];
  readonly address: string;
  readonly verified: [string, string][];
  close(): Promise<void>;
}

export async function startLinkRouter(
  id: string,
  o: {
    identity: Identity;
    dialers?: ResolvedDialer[];
    routerId?: string;
    /** Who is told of links instead of `reported`. */
    reports?: LinkReports;
    /** Loopback address to listen on and to be dialled at. */
    host?: string;
    /** Name of the listener's interface in link keys. */
    localBinding?: string;
    heartbeats?: { sendInterval: number; checkInterval: number; closeUnresponsiveTimeout: number };
    verify?: (routerId: string, fingerprint: string) => Promise<void>;
  },
): Promise<LinkRouter> {
  const { identity } = o;
  const host = o.host ?? "127.0.0.1";
  const forwarded = new Map<string, Link>();
  const reported: [string, Link][] = [];
  const verified: [string, string][] = [];
  const report = (what: string) => (link: Link) => void reported.push([what, link]);
  const reports: LinkReports = {
    established: report("established"),
    connectionsChanged: report("connections"),
    failed: report("failed"),
    duplicate: report("duplicate"),
    measured: report("measured"),
  };
  const port = await TlsPort.listen({ host, port: 0, identity });
  const links = new LinkManager({
    routerId: o.routerId ?? id,
    identity: () => identity,
    dialers: o.dialers ?? [],
    heartbeats: o.heartbeats ?? { sendInterval: 10_000, checkInterval: 20, closeUnresponsiveTimeout: 60_000 },
    dialWorkers: 4,
    dialQueueLength: 10,
    lookMs: 20,
    forwarder: {
      addLink: (link) => void forwarded.set(link.id, link as Link),
      removeLink: (linkId, channel) => {
        if (forwarded.get(linkId)?.channel === channel) forwarded.delete(linkId);
      },
    },
    reports: o.reports ?? reports,
    log: silentLogger,
  });
  const address = `tls:${host === "127.0.0.1" ? "localhost" : `[${host}]`}:${port.port}`;
  const stop = acceptLinks({
    port,
    routerId: o.routerId ?? id,
    identity: () => identity,
    protocol: "tls",
    localBinding: o.localBinding ?? "",
    advertise: address,
    helloTimeoutMs: 3000,
    verify: async (routerId, fingerprint) => {
      verified.push([routerId, fingerprint]);
      await o.verify?.(routerId, fingerprint);
    },
    onLink: (link) => links.accepted(link),
    log: silentLogger,
  });
  return {
    id,
    links,
    forwarded,
    reported,
    verified,
    address,
    close: async () => {
      stop();
      links.close();
      await port.close();
    },
  };
}

/** What a controller says of a router that is connected. */
export const healthy = (router: LinkRouter, o: Partial<PeerChange> & { groups?: string[] } = {}): PeerChange => ({
  id: router.id,
  version: "v1.6.20",
  state: "healthy",
  listeners: [{ address: router.address, protocol: "tls", groups: o.groups ?? ["default"], localBinding: "" }],
  ...o,
});
