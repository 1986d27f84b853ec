import { EDGE_DEFAULTS, OUT_QUEUE_SIZE } from "@sallyport/router-config";
import {
  type Address,
  ControlHello,
  capabilityMask,
  ctrlPb,
  encodeControl,
  Headers,
  RouterCapability,
  versionInfo,
} from "@sallyport/wire";
import { resolveBind } from "../config/network-interfaces.ts";
import { channelLimits, edgeListeners, linkListeners, proxyOf } from "../config/options.ts";
import type { RouterIdentity } from "../config/router-identity.ts";
import { Control } from "../control/control.ts";
import { Controllers } from "../control/controllers/controllers.ts";
import { giveUpLateCircuits } from "../control/late-circuits.ts";
import { handleRoutes } from "../control/routes.ts";
import { AdaptiveWindow } from "../control/terminators/adaptive-window.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { Histogram } from "../metrics/histogram.ts";
import type { Assembly, RouterCounts } from "./context.ts";

/** The control channels, not yet dialled: see `membership.ts`. */
export function controlChannels({
  config,
  identity,
  routerId,
  log,
}: Pick<Assembly, "config" | "routerId" | "log"> & {
  readonly identity: Pick<RouterIdentity, "current">;
}): Controllers {
  const { ctrl } = config;
  const links = linkListeners(config);
  return new Controllers({
    identity: () => identity.current,
    hello: () => ({ idToken: routerId, headers: helloHeaders(links, edgeListeners(config).length > 0) }),
    connectTimeoutMs: ctrl.options.connectTimeoutMs,
    requestTimeoutMs: ctrl.defaultRequestTimeout,
    heartbeats: {
      sendIntervalMs: ctrl.heartbeats.sendInterval,
      checkIntervalMs: ctrl.heartbeats.checkInterval,
      unresponsiveAfterMs: ctrl.heartbeats.unresponsiveAfter,
      closeUnresponsiveMs: ctrl.heartbeats.closeUnresponsiveTimeout,
    },
    limits: channelLimits(ctrl.options, OUT_QUEUE_SIZE.control),
    proxy: proxyOf(config),
    localAddress: ctrl.bind === undefined ? undefined : resolveBind(ctrl.bind),
    log,
  });
}

/** The control channels and what is asked over them. */
export function control(context: Assembly, forwarder: Forwarder): { controllers: Controllers; control: Control } {
  const { config, routerId, log, stops, counts } = context;
  const edge = config.edge ?? EDGE_DEFAULTS;
  const heartbeatSeconds: number = edge.heartbeatIntervalSeconds;
  const edges = edgeListeners(config);
  const controllers = controlChannels(context);
  const window = new AdaptiveWindow(config.ctrl.rateLimiter);
  stops.push(() => window.close());
  if (config.ctrl.rateLimiter.enabled) countLimiter(window, counts);
  const control = new Control({
    routerId,
    window,
    controllers,
    log,
    hasEdgeListener: edges.length > 0,
    edgeAddresses: () =>
      edges.map((l) => ({
        protocol: l.address.protocol,
        listenHost: l.address.host,
        listenPort: l.address.port,
        advertiseHost: l.advertise.host,
        advertisePort: l.advertise.port,
      })),
    heartbeatIntervalMs: heartbeatSeconds * 1000,
    validate: {
      chunkSize: edge.sessionValidateChunkSize,
      minPauseMs: edge.sessionValidateMinInterval,
      maxPauseMs: edge.sessionValidateMaxInterval,
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
  giveUpLateCircuits(controllers, (circuit) => forwarder.giveUp(circuit), log);
  forwarder.onFault((fault) => control.sendFault(fault));
  forwarder.onIdle(({ controllerId, idle }) => control.confirmCircuits(controllerId, idle));
  forwarder.startScans();
  return { controllers, control };
}

/** What is on its way to the controllers within `ctrl.rateLimiter` (docs/protocol/control.md, "Metrics"). */
function countLimiter(window: AdaptiveWindow, { gauges, timers }: RouterCounts): void {
  const work = new Histogram();
  window.onAnswered = (ms) => work.update(ms * 1e6);
  timers.set("ctrl_limiter.work_timer", work);
  gauges.set("ctrl_limiter.in_process", () => window.inFlight);
  gauges.set("ctrl_limiter.window_size", () => window.size);
}

/** What the hello of a control channel says about the router (docs/protocol/control.md, "Hello"). */
function helloHeaders(
  listeners: readonly {
    advertiseText: string;
    bind: Address;
    costTags: string[];
    groups: string[];
    localBinding: string;
  }[],
  hasEdgeListener: boolean,
): Headers {
  const headers = new Headers().setString(ControlHello.Version, versionInfo());
  if (listeners.length > 0) {
    const body = encodeControl(ctrlPb.ListenersSchema, {
      listeners: listeners.map((listener) => ({
        address: listener.advertiseText,
        protocol: listener.bind.protocol,
        costTags: listener.costTags,
        groups: listener.groups,
        localBinding: listener.localBinding,
      })),
    });
    // Older controllers read the first, those of OpenZiti 2.x the second.
    headers.set(ControlHello.Listeners, body).set(ControlHello.ListenersV2, body);
  }
  const capabilities = [ctrlPb.RouterCapability.LinkManagement];
  const metadata = encodeControl(ctrlPb.RouterMetadataSchema, { capabilities });
  const bits: number[] = [RouterCapability.MultiChannel, RouterCapability.BindSuccess];
  // With an edge listener the data model is followed, and posture is looked at here.
  if (hasEdgeListener) {
    bits.push(RouterCapability.ConnectV2, RouterCapability.ServiceSubscriptions);
    bits.push(RouterCapability.PostureChecks, RouterCapability.DataModel);
  }
  return headers
    .set(ControlHello.RouterMetadata, metadata)
    .set(ControlHello.RouterMetadataV2, metadata)
    .set(ControlHello.CapabilitiesV2, capabilityMask(bits));
}
