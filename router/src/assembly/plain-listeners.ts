import { type AddressInfo, createServer } from "node:net";
import type { RouterConfig } from "@sallyport/router-config";
import { type Address, boundedLog, formatAddress, listen } from "@sallyport/wire";
import { xgressOptions } from "../config/options.ts";
import type { Control } from "../control/control.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { PlainCircuit } from "../xgress/plain-client.ts";
import { StreamListener } from "../xgress/transport/stream-listener.ts";
import { DatagramListener } from "../xgress/udp/datagram-listener.ts";
import type { Assembly } from "./context.ts";

type PlainConfig = Extract<RouterConfig["listeners"][number], { address: Address }> & {
  binding: "transport" | "transport_udp" | "proxy" | "proxy_udp";
};

const PLAIN = new Set<string>(["transport", "transport_udp", "proxy", "proxy_udp"]);
const UDP = new Set(["udp", "udp4", "udp6"]);

/**
 * Opens the listeners for clients that know nothing of the overlay.
 *
 * @throws what listening throws
 */
export async function plainListeners(context: Assembly, o: { control: Control; forwarder: Forwarder }): Promise<void> {
  for (const listener of context.config.listeners) {
    if (PLAIN.has(listener.binding)) await open(context, listener as PlainConfig, o);
  }
}

async function open(
  context: Assembly,
  listener: PlainConfig,
  { control, forwarder }: { control: Control; forwarder: Forwarder },
): Promise<void> {
  const { stops } = context;
  const log = boundedLog(context.log);
  const { binding, address, options } = listener;
  const common = {
    forwarder,
    xgress: xgressOptions(options),
    service: "service" in listener ? listener.service : undefined,
    createCircuit: (service: string) => control.createPlainCircuit({ service, timeoutMs: options.getCircuitTimeout }),
    release: (circuit: PlainCircuit) => forwarder.giveUp(circuit),
    log,
  };
  if (UDP.has(address.protocol)) {
    const family = address.protocol === "udp4" ? 4 : address.protocol === "udp6" ? 6 : 0;
    const opened = await DatagramListener.listen({
      ...common,
      // The schema has no address of UDP for `proxy`.
      binding: binding as Exclude<typeof binding, "proxy">,
      host: address.host,
      port: address.port,
      family,
    });
    stops.push(() => opened.close());
    log.info({ address: formatAddress(address), port: opened.port, binding }, "listening");
    return;
  }
  const streams = new StreamListener({ ...common, binding: binding as "transport" | "proxy", mtu: options.mtu });
  stops.push(() => streams.close());
  if (address.protocol === "tls") {
    const port = await context.ports.at(address);
    const unregister = port.register({
      ...{ name: `${binding} listener`, protocols: [], acceptsNoAlpn: true },
      onSocket: (socket) => {
        socket.pause();
        socket.allowHalfOpen = true;
        streams.accept(socket);
      },
    });
    stops.push(unregister);
    return;
  }
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (socket) =>
    streams.accept(socket),
  );
  await listen(server, { port: address.port, host: address.host || undefined }, (err) =>
    log.error({ err, binding }, "listening failed"),
  );
  stops.push(() => void server.close());
  log.info({ address: formatAddress(address), binding, port: (server.address() as AddressInfo).port }, "listening");
}
