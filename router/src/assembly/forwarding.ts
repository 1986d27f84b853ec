import { RouteErrorCode } from "@sallyport/wire";
import { resolveBind } from "../config/network-interfaces.ts";
import { forwarderOptions, xgressOptions } from "../config/options.ts";
import type { Control } from "../control/control.ts";
import { type EgressBinding, EgressError } from "../forwarder/egress.ts";
import { Forwarder } from "../forwarder/forwarder.ts";
import { TransportEgress } from "../xgress/transport/transport-egress.ts";
import { UdpEgress } from "../xgress/udp/udp-egress.ts";
import type { Assembly } from "./context.ts";

/** The table of circuits. */
export function forwarding({ config, routerId, log, stops }: Assembly): Forwarder {
  const forwarder = new Forwarder({ routerId, log, options: forwarderOptions(config.forwarder) });
  stops.push(() => forwarder.close());
  return forwarder;
}

/** Bindings whose terminators are addresses: the router can tell whether it dials them, and nothing else. */
const ADDRESSED = ["transport", "transport_udp", "edge_transport"] as const;

/**
 * The bindings of `dialers`: how terminators of this router are reached. Of several with one binding the last counts.
 * `edge` and `tunnel` come with their listeners.
 */
export async function egress(
  { config, identity }: Assembly,
  { control, forwarder }: { control: Control; forwarder: Forwarder },
): Promise<void> {
  for (const dialer of config.dialers) {
    const { binding, bind, options } = dialer;
    const o = {
      xgress: xgressOptions(options),
      connectTimeoutMs: options.connectTimeout,
      mtu: options.mtu,
      localAddress: bind === undefined ? undefined : resolveBind(bind),
      identity: () => identity.current,
    };
    if (binding === "transport") forwarder.registerEgress(binding, new TransportEgress(forwarder, o));
    else if (binding === "transport_udp") forwarder.registerEgress(binding, new UdpEgress(forwarder, o));
    else if (binding === "edge_transport") {
      const { edgeTransport } = await import("../tunnel/egress.ts");
      forwarder.registerEgress(binding, await edgeTransport(forwarder, o));
    } else if (binding === "proxy" || binding === "proxy_udp") forwarder.registerEgress(binding, listensOnly(binding));
  }
  const dialed = new Set(config.dialers.map(({ binding }) => binding));
  for (const binding of ADDRESSED) {
    if (dialed.has(binding)) control.onValidateTerminators(binding, () => ({ valid: true }));
  }
}

function listensOnly(binding: string): EgressBinding {
  const text = `binding ${binding} only listens: terminators have one of the bindings transport, transport_udp, edge, tunnel`;
  return {
    dial: () => Promise.reject(new EgressError(RouteErrorCode.MisconfiguredTerminator, text)),
  };
}
