import { formatAddress, PROTOCOL_VERSION } from "@sallyport/wire";
import { Agent } from "@sallyport/wire/agent";
import { LocalOperations } from "../agent/local-operations.ts";
import { ROUTER_APPLICATION, RouterRequest } from "../agent/router-request.ts";
import type { ListenerStatus, StatusReport } from "../agent/status.ts";
import type { Control } from "../control/control.ts";
import type { Controllers } from "../control/controllers/controllers.ts";
import type { EdgeListener } from "../edge/edge-listener.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { RouterHealth } from "../health/health.ts";
import type { LinkManager } from "../link/link-manager.ts";
import type { Assembly } from "./context.ts";

export interface AgentParts {
  readonly controllers: Controllers;
  readonly control: Control;
  readonly forwarder: Forwarder;
  readonly links: LinkManager;
  readonly health: RouterHealth;
  readonly edge: () => EdgeListener | undefined;
  /** Renews the certificates; resolves with `renewed`, or with why not. */
  readonly extend: () => Promise<string>;
  /** Of the program, not of the protocol. */
  readonly version: string;
  readonly setLogLevel?: ((level: string) => void) | undefined;
  readonly shutDown: () => void;
}

/** The socket on which local tools reach this process. */
export async function agent(context: Assembly, o: AgentParts): Promise<void> {
  const { config, routerId, log, stops } = context;
  const { controllers, forwarder, links, control } = o;
  const operations = new LocalOperations({
    controllers,
    forwarder,
    links,
    debugOps: config.enableDebugOps,
    shutDown: o.shutDown,
  });
  const started = await Agent.start({
    application: {
      info: { type: "router", id: routerId, version: o.version },
      operations: {
        applicationId: ROUTER_APPLICATION,
        request: (code) => {
          switch (code) {
            case RouterRequest.Status:
              return JSON.stringify(status(context, o));
            case RouterRequest.Extend:
              return o.extend();
            case RouterRequest.DumpApiSessions:
              return config.enableDebugOps
                ? apiSessions(control)
                : "debug operations are not allowed: set enableDebugOps";
            default:
              return undefined;
          }
        },
        serve: (channel) => operations.serve(channel),
      },
      setLogLevel: o.setLogLevel,
    },
    log,
  });
  if (started !== undefined) stops.push(() => started.close());
}

/** Ids only: tokens are secrets. */
function apiSessions(control: Control): string {
  const sessions = control.apiSessions().map(({ id, identityId }) => `api session ${id} identity ${identityId}`);
  return `${[`api sessions: ${sessions.length}`, ...sessions].join("\n")}\n`;
}

function status({ config, routerId }: Assembly, o: AgentParts): StatusReport {
  const { controllers, forwarder, links, health } = o;
  const { rss, heapUsed, external } = process.memoryUsage();
  const { userCPUTime, systemCPUTime } = process.resourceUsage();
  const edge = o.edge();
  const known = new Map(controllers.all().map((controller) => [controller.address, controller]));
  return {
    id: routerId,
    pid: process.pid,
    version: o.version,
    protocol: PROTOCOL_VERSION,
    startedAt: new Date(Date.now() - process.uptime() * 1000).toISOString(),
    uptimeSeconds: Math.round(process.uptime()),
    healthy: health.isHealthy,
    checks: health.states(),
    controllers: [...new Set([...controllers.endpoints, ...known.keys()])].map((address) => {
      const controller = known.get(address);
      if (controller === undefined) return { address, connected: false };
      const { latencyMs } = controller;
      return {
        address,
        connected: true,
        id: controller.id,
        version: controller.version.version,
        responsive: controllers.isResponsive(controller),
        latencyMs: latencyMs === Number.MAX_SAFE_INTEGER ? undefined : latencyMs,
      };
    }),
    links: links.links().map((link) => ({
      id: link.id,
      routerId: link.peerId,
      dialed: link.isDialed,
      address: link.dialAddress,
      connections: link.connections().length,
      latencyMs: link.latency.count === 0 ? undefined : link.latency.mean / 1e6,
    })),
    listeners: listeners(config),
    circuits: forwarder.circuitIds().length,
    circuitEnds: [...forwarder.ends()].length,
    sdks: edge?.channels ?? 0,
    hostedBySdks: edge?.bindings ?? 0,
    memory: { rssBytes: rss, heapBytes: heapUsed, externalBytes: external },
    cpuSeconds: (userCPUTime + systemCPUTime) / 1e6,
  };
}

function listeners(config: Assembly["config"]): ListenerStatus[] {
  const links = (config.link?.listeners ?? []).map((l) => ({
    kind: "link",
    address: formatAddress(l.bind),
    advertise: l.advertiseText,
  }));
  const own = config.listeners.map((l) => ({
    kind: l.binding,
    address: "address" in l && typeof l.address === "object" ? formatAddress(l.address) : "-",
    advertise: l.binding === "edge" ? `${l.advertise.host}:${l.advertise.port}` : undefined,
  }));
  const servers = config.web.flatMap((server) =>
    server.bindPoints.map(({ interface: { host, port }, address }) => ({
      kind: "web",
      address: `https:${host}:${port}`,
      advertise: `${address.host}:${address.port}`,
    })),
  );
  return [...links, ...own, ...servers];
}
