import { type Identity, Xgress, type XgressOptions } from "@sallyport/wire";
import type { EgressBinding, EgressRequest } from "../../forwarder/egress.ts";
import type { Forwarder } from "../../forwarder/forwarder.ts";
import { dialUdp } from "../udp/udp-egress.ts";
import { addressesOf, dialStream, targetOf } from "./dial.ts";
import { SocketPort } from "./socket-port.ts";

export interface TransportEgressOptions {
  readonly xgress: XgressOptions;
  /** Longest wait for a connection; 0: as long as the controller waits. */
  readonly connectTimeoutMs: number;
  readonly mtu: number;
  /** The address of this machine to connect from; the system's choice when left out. */
  readonly localAddress?: string | undefined;
  readonly identity: () => Identity;
}

const HOP_TYPE = "xgress/transport";

/**
 * The egress binding `transport`: connects circuits to `tcp:host:port`, `tls:host:port` and `udp:host:port`
 * (docs/protocol/data-path.md, "Transport").
 */
export class TransportEgress implements EgressBinding {
  readonly #forwarder: Forwarder;
  readonly #o: TransportEgressOptions;

  constructor(forwarder: Forwarder, options: TransportEgressOptions) {
    this.#forwarder = forwarder;
    this.#o = options;
  }

  async dial(request: EgressRequest): Promise<Map<number, Buffer>> {
    const target = targetOf(request.destination, "transport", ["tcp", "tls", "udp"]);
    const { connectTimeoutMs, mtu, identity, localAddress: bind, xgress: options } = this.#o;
    const timeoutMs = connectTimeoutMs > 0 ? Math.min(connectTimeoutMs, request.timeoutMs) : request.timeoutMs;
    if (target.protocol === "udp") {
      const o = { target, timeoutMs, localAddress: bind, xgress: options, hopType: HOP_TYPE };
      return dialUdp(this.#forwarder, request, o);
    }
    const port = new SocketPort({ hopType: HOP_TYPE, mtu });
    const { signal } = request;
    const socket = await dialStream({ target, identity, localAddress: bind, timeoutMs, signal, onread: port.onread });
    const { circuitId, address } = request;
    const xgress = new Xgress({ fabric: this.#forwarder, circuitId, address, side: "terminator", port, options });
    port.attachDialled(socket, xgress);
    const { localAddress = "", localPort, remoteAddress = "", remotePort } = socket;
    return addressesOf([localAddress, localPort], [remoteAddress, remotePort]);
  }
}
