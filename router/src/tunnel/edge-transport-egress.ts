import { loadSodium, type Sodium } from "@sallyport/sdk";
import { TcpRelay } from "@sallyport/tunnel";
import { Xgress } from "@sallyport/wire";
import type { EgressBinding, EgressRequest } from "../forwarder/egress.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { dialStream } from "../xgress/transport/stream-dial.ts";
import { targetOf } from "../xgress/transport/target.ts";
import { addressesOf } from "../xgress/transport/terminator-addresses.ts";
import type { TransportEgressOptions } from "../xgress/transport/transport-egress.ts";
import { CircuitConnection } from "./circuit-connection.ts";
import { dialerKeyOf, encryptionWith } from "./dialer-encryption.ts";

/** The egress binding `edge_transport`, with the encryption that it needs loaded. */
export async function edgeTransport(forwarder: Forwarder, options: TransportEgressOptions): Promise<EgressBinding> {
  return new EdgeTransportEgress(forwarder, await loadSodium(), options);
}

/**
 * As `transport`, for services that are encrypted from end to end: this router is the other end, and what leaves it is
 * plain (docs/protocol/data-path.md, "Transport").
 */
class EdgeTransportEgress implements EgressBinding {
  readonly #forwarder: Forwarder;
  readonly #sodium: Sodium;
  readonly #o: TransportEgressOptions;

  constructor(forwarder: Forwarder, sodium: Sodium, options: TransportEgressOptions) {
    this.#forwarder = forwarder;
    this.#sodium = sodium;
    this.#o = options;
  }

  async dial(request: EgressRequest): Promise<Map<number, Buffer>> {
    const target = targetOf(request.destination, "edge_transport", ["tcp", "tls"]);
    const dialerKey = dialerKeyOf(request.peerData);
    const { connectTimeoutMs, identity, localAddress: bind, mtu, xgress: options } = this.#o;
    const timeoutMs = connectTimeoutMs > 0 ? Math.min(connectTimeoutMs, request.timeoutMs) : request.timeoutMs;
    const socket = await dialStream({ target, identity, localAddress: bind, timeoutMs, signal: request.signal });
    const { localAddress = "", localPort, remoteAddress = "", remotePort } = socket;
    const answer = addressesOf([localAddress, localPort], [remoteAddress, remotePort]);
    const endToEnd = dialerKey && encryptionWith(this.#sodium, dialerKey, answer);
    const { circuitId, address } = request;
    const hopType = "xgress/edge_transport";
    const connection = new CircuitConnection({ circuitId, kind: "stream", endToEnd, mtu, hopType, onEnd: () => {} });
    const { port } = connection;
    connection.join(new Xgress({ fabric: this.#forwarder, circuitId, address, side: "terminator", port, options }));
    new TcpRelay(socket, connection, () => {}).start();
    return answer;
  }
}
