import type { EdgeListenerConfig } from "@sallyport/router-config";
import { type Channel, type ChannelPort, formatAddress, ThreadPort } from "@sallyport/wire";
import { edgeListeners, edgeOptions } from "../config/options.ts";
import { RouterIdentity } from "../config/router-identity.ts";
import type { Control } from "../control/control.ts";
import { ApiProxy } from "../edge/api-proxy.ts";
import { EdgeListener, type EdgePort } from "../edge/edge-listener.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { Histogram } from "../metrics/histogram.ts";
import type { Assembly } from "./context.ts";

/** The edge listeners, opened; none without one in the file. */
export async function edge(
  context: Assembly,
  o: { control: Control; forwarder: Forwarder; onChannel?: (channel: Channel) => void },
): Promise<EdgeListener | undefined> {
  const { config, counts, identity, log, stops } = context;
  await apiProxy(context);
  const edgePorts: EdgePort[] = [];
  for (const listener of edgeListeners(context.config)) {
    edgePorts.push({ port: await portOf(context, listener), options: edgeOptions(listener) });
  }
  if (edgePorts.length === 0) return undefined;
  const dataDelay = config.metrics.enableDataDelayMetric ? new Histogram() : undefined;
  if (dataDelay !== undefined) counts.timers.set("xgress_edge.long_data_queue_time", dataDelay);
  const edge = new EdgeListener({
    ports: edgePorts,
    ...o,
    access: o.control.access,
    anchors: () => identity.current.anchors,
    counters: counts.edge,
    dataDelay: dataDelay && ((ns) => dataDelay.update(ns)),
    log,
  });
  stops.push(() => edge.close());
  return edge;
}

async function portOf(context: Assembly, listener: EdgeListenerConfig): Promise<ChannelPort> {
  const { address } = listener;
  if (address.protocol === "wss") return webSocketPort(context, listener);
  return listener.options.workers > 0 ? threadPort(context, listener) : context.ports.at(address);
}

async function threadPort(context: Assembly, { address, options }: EdgeListenerConfig): Promise<ChannelPort> {
  const { config, identity, log, stops } = context;
  const port = await ThreadPort.listen({
    host: address.host === "" ? "::" : address.host,
    port: address.port,
    identity: identity.current,
    threads: options.workers,
    handshakeTimeoutMs: config.tls.handshakeTimeout,
    log,
  });
  stops.push(() => port.close());
  identity.onChange((next) => port.setIdentity(next));
  log.info({ address: formatAddress(address), port: port.port, workers: options.workers }, "listening");
  return port;
}

async function webSocketPort(context: Assembly, { address }: EdgeListenerConfig): Promise<ChannelPort> {
  const { config, identity, baseDir, turns, log, stops } = context;
  const settings = config.transport.wss;
  const outer =
    settings.identity === undefined ? undefined : await RouterIdentity.load(settings.identity, baseDir, log);
  // Few routers have one, and it takes its share of memory.
  const { WebSocketPort } = await import("../edge/web-socket/web-socket-port.ts");
  const port = await WebSocketPort.listen({
    host: address.host === "" ? "::" : address.host,
    port: address.port,
    identity: identity.current,
    outer: outer?.current,
    settings,
    turns,
    log,
  });
  stops.push(() => port.close());
  identity.onChange((next) => port.setIdentity(next));
  if (outer !== undefined) {
    stops.push(outer.watch());
    outer.onChange((next) => port.setOuterIdentity(next));
  }
  log.info({ address: formatAddress(address), port: port.port }, "listening for web sockets");
  return port;
}

/** The controller's API for clients that reach nothing but this router. */
async function apiProxy({ config, identity, turns, log, stops }: Assembly): Promise<void> {
  const settings = config.edge?.apiProxy;
  if (settings === undefined) return;
  const proxy = await ApiProxy.listen({ ...settings, identity: identity.current, turns, log });
  stops.push(() => proxy.close());
  identity.onChange((next) => proxy.setIdentity(next));
  log.info({ port: proxy.port, upstream: settings.upstream }, "the controller's API is proxied");
}
