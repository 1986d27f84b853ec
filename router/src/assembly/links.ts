import { LINK_DEFAULTS, type RouterConfig } from "@sallyport/router-config";
import { resolveBind } from "../config/network-interfaces.ts";
import { linkListeners, listenerLimits, proxyOf } from "../config/options.ts";
import type { Controllers } from "../control/controllers/controllers.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { acceptLinks } from "../link/link-accept.ts";
import { LinkControl } from "../link/link-control.ts";
import { LinkManager, type ResolvedDialer } from "../link/link-manager.ts";
import type { Assembly } from "./context.ts";

/**
 * Links to other routers. `listen` opens the link listeners; `measured` is called when the first latency of a link is
 * known.
 */
export function links(context: Assembly, o: { controllers: Controllers; forwarder: Forwarder; measured: () => void }) {
  const { config, identity, routerId, log, ports, stops } = context;
  const listeners = linkListeners(config);
  const reports = new LinkControl(o.controllers, log, o.measured);
  const manager = new LinkManager({
    routerId,
    identity: () => identity.current,
    dialers: resolveDialers(
      config,
      listeners.map((l) => l.localBinding),
    ),
    heartbeats: (config.link ?? LINK_DEFAULTS).heartbeats,
    dialWorkers: config.forwarder.linkDialWorkerCount,
    dialQueueLength: config.forwarder.linkDialQueueLength,
    proxy: proxyOf(config),
    forwarder: o.forwarder,
    reports,
    log,
  });
  stops.push(() => manager.close());
  reports.attach(manager);
  const listen = async (): Promise<void> => {
    for (const listener of listeners) {
      const stop = acceptLinks({
        port: await ports.at(listener.bind),
        routerId,
        identity: () => identity.current,
        protocol: listener.bind.protocol,
        localBinding: listener.localBinding,
        advertise: listener.advertiseText,
        helloTimeoutMs: listener.options.connectTimeoutMs,
        limits: listenerLimits(listener.options),
        verify: (id, fingerprint) => reports.verify(id, fingerprint),
        onLink: (link) => manager.accepted(link),
        log,
      });
      stops.push(stop);
    }
  };
  return { manager, listen };
}

function resolveDialers(config: RouterConfig, listenerBindings: readonly string[]): ResolvedDialer[] {
  const dialers = config.link?.dialers ?? [];
  return dialers.map(({ bind, ...rest }) => {
    if (bind !== undefined) return { ...rest, bindingName: bind, localAddress: resolveBind(bind) };
    const only = dialers.length === 1 && listenerBindings.length === 1;
    return { ...rest, bindingName: only ? (listenerBindings[0] ?? "") : "" };
  });
}
