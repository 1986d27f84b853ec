import type { RouterConfig } from "@sallyport/router-config";
import { xgressOptions } from "../config/forwarding.ts";
import type { Control } from "../control/control.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { Assembly } from "./context.ts";

type TunnelConfig = Extract<RouterConfig["listeners"][number], { binding: "tunnel" }>;

/** What is known of the running tunneler. */
export interface RouterTunneler {
  readonly mode: string;
  readonly circuits: () => number;
  readonly terminators: () => number;
}

/**
 * The router's own tunneler, when there is a listener with the binding `tunnel`; of several the last counts. It does
 * nothing until a controller says that the router has an identity to tunnel as. Its code is loaded only here: most
 * routers need neither tunneler nor encryption.
 *
 * @throws what an interceptor says that cannot start
 */
export async function tunneler(
  context: Assembly,
  { control, forwarder }: { control: Control; forwarder: Forwarder },
): Promise<RouterTunneler | undefined> {
  const { config, identity, routerId, log, stops } = context;
  const listener = config.listeners.findLast((each): each is TunnelConfig => each.binding === "tunnel");
  if (listener === undefined) return undefined;
  const { startTunneler } = await import("../tunnel/start-tunneler.ts");
  const { options } = listener;
  const dialer = config.dialers.findLast(({ binding }) => binding === "tunnel")?.options ?? options;
  const started = await startTunneler({
    mode: options,
    routerId,
    secret: identity.current.keyPem,
    control: control.startTunnel({ servicePollMs: options.svcPollRate }),
    forwarder,
    sendFault: (fault) => control.sendFault(fault),
    dialed: { xgress: xgressOptions(options), mtu: options.mtu },
    hosted: { xgress: xgressOptions(dialer), mtu: dialer.mtu },
    onStop: (stop) => stops.push(stop),
    log,
  });
  forwarder.registerEgress("tunnel", started.egress);
  stops.push(
    control.onValidateTerminators("tunnel", ({ id }) =>
      started.hasTerminator(id)
        ? { valid: true, detail: "valid" }
        : { valid: false, reason: 1, detail: "the router's tunneler does not host it" },
    ),
  );
  return { mode: options.mode, circuits: started.circuits, terminators: started.terminators };
}
