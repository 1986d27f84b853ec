import { dirname, join, resolve } from "node:path";
import type { EdgeListenerConfig, RouterConfig } from "@sallyport/router-config";
import { type Address, formatAddress, type Logger, TlsPort } from "@sallyport/wire";
import { uncoveredHosts } from "./config/advertise.ts";
import { edgeOptions, forwarderOptions, xgressOptions } from "./config/forwarding.ts";
import { inactiveSettings } from "./config/inactive.ts";
import { interfaceOf, resolveBind } from "./config/network-interfaces.ts";
import { RouterIdentity } from "./config/router-identity.ts";
import { CertificateRenewal } from "./control/certificate-renewal.ts";
import { Control } from "./control/control.ts";
import { ControllerAddresses } from "./control/controller-addresses.ts";
import { Controllers } from "./control/controllers.ts";
import { readEndpointsFile } from "./control/endpoints-file.ts";
import { firstController } from "./control/first-controller.ts";
import { InterfaceReports } from "./control/interface-reports.ts";
import { helloHeaders } from "./control/router-hello.ts";
import { handleRoutes } from "./control/routes.ts";
import { type Edge, type EdgePort, startEdge } from "./edge/edge-listener.ts";
import { Forwarder } from "./forwarder/forwarder.ts";
import { inspectors } from "./inspectors.ts";
import { acceptLinks } from "./link/link-accept.ts";
import { LinkControl } from "./link/link-control.ts";
import { LinkManager, type ResolvedDialer } from "./link/link-manager.ts";
import { DataPathMeters } from "./metrics/data-path-meters.ts";
import { MetricsReporter } from "./metrics/metrics-reporter.ts";
import { TransportEgress } from "./xgress/transport-egress.ts";

/** The router cannot start as it is configured; the message says what to change. */
export class RouterStartError extends Error {
  override readonly name = "RouterStartError";
  readonly code = "CANNOT_START";
}

export interface RouterOptions {
  readonly config: RouterConfig;
  /** The configuration file; the endpoints file stands beside it unless configured. */
  readonly configFile: string;
  /** Where file names in the configuration are relative to: the working directory. */
  readonly baseDir: string;
  readonly log: Logger;
  /** Renew the certificates at once. */
  readonly extend?: boolean;
}

/** A running router. */
export interface Router {
  readonly id: string;
  readonly links: LinkManager;
  readonly control: Control;
  readonly forwarder: Forwarder;
  /** Resolves when the first controller is connected; rejects after `ctrl.startupTimeout`. */
  readonly online: Promise<void>;
  /** Stops everything, in reverse order of its start. */
  close(): Promise<void>;
}

/** The file that remembers the controllers' addresses. */
export function endpointsFileOf(config: RouterConfig, configFile: string, baseDir: string): string {
  const { endpointsFile } = config.ctrl;
  return endpointsFile === undefined
    ? join(dirname(resolve(baseDir, configFile)), "endpoints.yml")
    : resolve(baseDir, endpointsFile);
}

/**
 * Starts a router: its ports are open before any controller is dialled, so that whoever is told of it can reach it.
 *
 * @throws RouterStartError, IdentityError, BindError, or what listening throws; nothing is left running then
 */
export async function startRouter(o: RouterOptions): Promise<Router> {
  const stops: (() => void | Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const stop of stops.splice(0).reverse()) await stop();
  };
  try {
    return await assemble(o, stops, close);
  } catch (error) {
    await close();
    throw error;
  }
}

async function assemble(
  o: RouterOptions,
  stops: (() => void | Promise<void>)[],
  close: () => Promise<void>,
): Promise<Router> {
  const { config, log } = o;
  const identity = await RouterIdentity.load(config.identity, o.baseDir, log);
  stops.push(identity.watch());
  checkStart(config, identity);
  for (const line of inactiveSettings(config))
    log.warn({ setting: line.split(":")[0] }, `configured, but without effect: ${line}`);
  const routerId = identity.current.id;
  const edgeListeners = config.listeners.filter(
    (l): l is EdgeListenerConfig => l.binding === "edge" && l.address.protocol === "tls",
  );
  const linkListeners = (config.link?.listeners ?? []).map((listener) => ({
    ...listener,
    localBinding: listener.bindInterface ?? interfaceOf(listener.bind.host) ?? "",
  }));
  const dialers = resolveDialers(
    config,
    linkListeners.map((l) => l.localBinding),
  );

  const forwarder = new Forwarder({ routerId, log, options: forwarderOptions(config.forwarder) });
  stops.push(() => forwarder.close());
  const controllers = new Controllers({
    identity: () => identity.current,
    hello: () => ({ idToken: routerId, headers: helloHeaders(linkListeners) }),
    connectTimeoutMs: config.ctrl.options.connectTimeoutMs,
    requestTimeoutMs: config.ctrl.defaultRequestTimeout,
    heartbeats: {
      sendIntervalMs: config.ctrl.heartbeats.sendInterval,
      checkIntervalMs: config.ctrl.heartbeats.checkInterval,
      unresponsiveAfterMs: config.ctrl.heartbeats.unresponsiveAfter,
      closeUnresponsiveMs: config.ctrl.heartbeats.closeUnresponsiveTimeout,
    },
    ...writeTimeoutOf(config.ctrl.options),
    ...(config.ctrl.bind === undefined ? {} : { localAddress: resolveBind(config.ctrl.bind, "ctrl.bind") }),
    log,
  });
  const control = new Control({
    routerId,
    controllers,
    log,
    edgeAddresses: () =>
      edgeListeners.map((l) => ({
        protocol: l.address.protocol,
        listenHost: l.address.host,
        listenPort: l.address.port,
        advertiseHost: l.advertise.host,
        advertisePort: l.advertise.port,
      })),
    heartbeatIntervalMs: (config.edge?.heartbeatIntervalSeconds ?? 60) * 1000,
    validate: {
      chunkSize: config.edge?.sessionValidateChunkSize ?? 1000,
      minPauseMs: config.edge?.sessionValidateMinInterval ?? 250,
      maxPauseMs: config.edge?.sessionValidateMaxInterval ?? 1500,
    },
    connectEvents: {
      enabled: config.connectEvents.enabled,
      batchIntervalMs: config.connectEvents.batchInterval,
      fullSyncIntervalMs: config.connectEvents.fullSyncInterval,
    },
    rateLimited: {
      workers: config.forwarder.rateLimitedWorkerCount,
      queueLength: config.forwarder.rateLimitedQueueLength,
    },
  });
  stops.push(() => control.close());
  handleRoutes(controllers, forwarder, log);
  forwarder.onFault((fault) => control.sendFault(fault));
  forwarder.onIdle(({ controllerId, idle }) => control.confirmCircuits(controllerId, idle));
  forwarder.startScans();
  const transport = config.dialers.findLast((dialer) => dialer.binding === "transport");
  if (transport !== undefined) {
    const { connectTimeout } = transport.options;
    forwarder.registerEgress(
      "transport",
      new TransportEgress(forwarder, { xgress: xgressOptions(transport.options), connectTimeoutMs: connectTimeout }),
    );
  }

  const metrics: { reporter?: MetricsReporter } = {};
  const serving: { edge?: Edge } = {};
  const reports = new LinkControl(controllers, log, () => metrics.reporter?.reportSoon());
  const links = new LinkManager({
    routerId,
    identity: () => identity.current,
    dialers,
    heartbeats: config.link?.heartbeats ?? {
      sendInterval: 10_000,
      checkInterval: 1000,
      closeUnresponsiveTimeout: 60_000,
    },
    dialWorkers: config.forwarder.linkDialWorkerCount,
    dialQueueLength: config.forwarder.linkDialQueueLength,
    forwarder,
    reports,
    log,
  });
  stops.push(() => links.close());
  reports.attach(links);
  const meters = new DataPathMeters({
    xgress: forwarder.counters,
    links: () =>
      links.links().flatMap(({ id }) => {
        const known = forwarder.link(id);
        return known === undefined ? [] : [{ id, counters: known.counters }];
      }),
  });
  stops.push(() => meters.close());
  metrics.reporter = new MetricsReporter({
    routerId,
    controllers,
    intervalMs: config.metrics.reportInterval,
    log,
    source: {
      histograms: () => links.links().map((link) => [`link.${link.id}.latency`, link.latency] as const),
      meters: () => meters.all(),
      gauges: () => [["edge.connections", serving.edge?.channels ?? 0] as const],
    },
  });
  const reporter = metrics.reporter;
  stops.push(() => reporter.close());
  inspectors(control.inspection, { config, links, forwarder, reporter });

  const ports = new Map<string, TlsPort>();
  const portOf = async (address: Address): Promise<TlsPort> => {
    const name = formatAddress(address);
    const known = ports.get(name);
    if (known !== undefined) return known;
    const port = await TlsPort.listen({
      host: address.host === "" ? "::" : address.host,
      port: address.port,
      identity: identity.current,
      handshakeTimeoutMs: config.tls.handshakeTimeout,
      log,
    });
    ports.set(name, port);
    stops.push(() => port.close());
    log.info({ address: name, port: port.port }, "listening");
    return port;
  };
  identity.onChange((next) => {
    for (const port of ports.values()) port.setIdentity(next);
  });
  for (const listener of linkListeners) {
    const stop = acceptLinks({
      port: await portOf(listener.bind),
      routerId,
      identity: () => identity.current,
      protocol: listener.bind.protocol,
      localBinding: listener.localBinding,
      advertise: listener.advertiseText,
      helloTimeoutMs: listener.options.connectTimeoutMs,
      ...writeTimeoutOf(listener.options),
      verify: (id, fingerprint) => reports.verify(id, fingerprint),
      onLink: (link) => links.accepted(link),
      log,
    });
    stops.push(stop);
  }
  if (edgeListeners.length > 0) {
    const edgePorts: EdgePort[] = [];
    for (const listener of edgeListeners)
      edgePorts.push({ port: await portOf(listener.address), options: edgeOptions(listener) });
    const edge = startEdge({
      ports: edgePorts,
      control,
      forwarder,
      anchors: () => identity.current.anchors,
      log,
    });
    serving.edge = edge;
    stops.push(() => edge.close());
  }

  const endpointsFile = endpointsFileOf(config, o.configFile, o.baseDir);
  const saved = await readEndpointsFile(endpointsFile, log);
  const endpoints = saved.length > 0 ? saved : config.ctrl.endpoints;
  if (endpoints.length === 0) {
    throw new RouterStartError(
      `no controller is known: ctrl.endpoint is missing and ${endpointsFile} names none; set one of them`,
    );
  }
  log.info(
    { endpoints: endpoints.map(formatAddress), from: saved.length > 0 ? endpointsFile : "ctrl" },
    "dialling controllers",
  );
  new ControllerAddresses({ controllers, endpointsFile, log });
  if (!config.interfaceDiscovery.disabled) {
    const { checkInterval, minReportInterval } = config.interfaceDiscovery;
    const interfaces = new InterfaceReports({
      controllers,
      checkIntervalMs: checkInterval,
      minReportIntervalMs: minReportInterval,
      log,
    });
    stops.push(() => interfaces.close());
  }
  const renewal = new CertificateRenewal({
    controllers,
    identity: () => identity.current,
    csr: config.csr,
    files: identity.files,
    reload: () => identity.reload(),
    log,
    extendNow: o.extend === true,
  });
  stops.push(() => renewal.close());
  const waiting = new AbortController();
  stops.push(() => waiting.abort());
  const online = firstController(controllers, config.ctrl.startupTimeout, waiting.signal);
  online.then(
    () => renewal.start(),
    () => {},
  );
  stops.push(() => controllers.stop());
  controllers.setEndpoints(endpoints);
  return { id: routerId, links, control, forwarder, online, close };
}

function checkStart(config: RouterConfig, identity: RouterIdentity): void {
  const edgeListener = config.listeners.some((listener) => listener.binding === "edge");
  if (edgeListener && config.edge === undefined) {
    throw new RouterStartError("there is an edge listener, but no edge section: add `edge: {}`");
  }
  const listens = edgeListener || (config.link?.listeners.length ?? 0) > 0;
  if (listens && identity.current.serverCertPem === undefined) {
    throw new RouterStartError("identity.server_cert is missing: a router that listens needs it");
  }
  const uncovered = uncoveredHosts(config, identity.current);
  if (uncovered.length > 0) throw new RouterStartError(uncovered.join("\n"));
}

function writeTimeoutOf(options: { writeTimeout?: number | undefined }): { writeTimeoutMs?: number } {
  const { writeTimeout } = options;
  return writeTimeout === undefined || writeTimeout === 0 ? {} : { writeTimeoutMs: writeTimeout };
}

function resolveDialers(config: RouterConfig, listenerBindings: readonly string[]): ResolvedDialer[] {
  const dialers = config.link?.dialers ?? [];
  return dialers.map((dialer, i) => {
    const { bind, ...rest } = dialer;
    if (bind !== undefined) {
      return { ...rest, bindingName: bind, localAddress: resolveBind(bind, `link.dialers[${i}].bind`) };
    }
    const only = dialers.length === 1 && listenerBindings.length === 1;
    return { ...rest, bindingName: only ? (listenerBindings[0] ?? "") : "" };
  });
}
