import type { RouterConfig } from "@sallyport/router-config";
import { type Address, AddressError, parseAddress, RouterBinding } from "@sallyport/wire";
import { xgressOptions } from "../config/options.ts";
import type { Control } from "../control/control.ts";
import type { Controllers } from "../control/controllers/controllers.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { LinkManager } from "../link/link-manager.ts";
import { Histogram } from "../metrics/histogram.ts";
import type { Assembly } from "./context.ts";

type TunnelConfig = Extract<RouterConfig["listeners"][number], { binding: "tunnel" }>;

/**
 * Starts the router's own tunneler when there is a listener with the binding `tunnel`; of several the last counts. It
 * waits until a controller gives the router an identity to tunnel as. Its code is loaded only here, because most routers
 * need neither tunneler nor encryption.
 *
 * @throws InterceptError
 */
export async function tunneler(
  context: Assembly,
  o: { control: Control; controllers: Controllers; forwarder: Forwarder; links: LinkManager },
): Promise<void> {
  const { config, identity, routerId, log, stops, counts } = context;
  const { control, controllers, forwarder, links } = o;
  const listener = config.listeners.findLast((each): each is TunnelConfig => each.binding === "tunnel");
  if (listener === undefined) return;
  const { startTunneler } = await import("../tunnel/start-tunneler.ts");
  const { options } = listener;
  const dialer = config.dialers.findLast(({ binding }) => binding === "tunnel")?.options ?? options;
  const creations = new Histogram();
  counts.timers.set("xgress_edge_tunnel.terminator.create_timer", creations);
  const tunnel = control.startTunnel({ servicePollMs: options.svcPollRate });
  const overlay = await startTunneler({
    mode: options,
    routerId,
    secret: identity.current.keyPem,
    control: tunnel,
    onTerminatorCreated: (ns) => creations.update(ns),
    forwarder,
    dialed: { xgress: xgressOptions(options), mtu: options.mtu },
    hosted: { xgress: xgressOptions(dialer), mtu: dialer.mtu },
    protectedAddresses: () => needed(config, controllers, links),
    onStop: (stop) => stops.push(stop),
    log,
  });
  forwarder.registerEgress(RouterBinding.Tunnel, overlay.egress);
  stops.push(
    control.onValidateTerminators(RouterBinding.Tunnel, async ({ id }) =>
      (await overlay.hasTerminator(id))
        ? { valid: true, detail: "valid" }
        : { valid: false, reason: 1, detail: "the router's tunneler does not host it" },
    ),
  );
}

/** Hosts and addresses of the controllers, and of the routers this one is linked to. */
function needed(config: RouterConfig, controllers: Controllers, links: LinkManager): string[] {
  const dialled = [...controllers.endpoints, ...links.links().flatMap(({ dialAddress }) => dialAddress ?? [])];
  const hosts = dialled.flatMap((text): Pick<Address, "host">[] => {
    try {
      return [parseAddress(text)];
    } catch (error) {
      if (error instanceof AddressError) return [];
      throw error;
    }
  });
  return [...new Set([...config.ctrl.endpoints, ...hosts].map(({ host }) => host))];
}
