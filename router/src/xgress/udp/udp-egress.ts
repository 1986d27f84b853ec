import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { isIP } from "node:net";
import { type Address, Xgress, type XgressOptions } from "@sallyport/wire";
import type { EgressBinding, EgressRequest } from "../../forwarder/egress.ts";
import type { Forwarder } from "../../forwarder/forwarder.ts";
import { addressesOf, dialError, targetOf } from "../transport/dial.ts";
import { DatagramPort } from "./datagram-port.ts";

/** Bytes that may wait in a socket; datagrams beyond it are lost. */
const MAX_WAITING = 1024 * 1024;

export interface UdpEgressOptions {
  readonly xgress: XgressOptions;
  /** The address of this machine to send from; the system's choice when left out. */
  readonly localAddress?: string | undefined;
}

/** The egress binding `transport_udp`: connects circuits to `udp:host:port`, `udp4:` and `udp6:` (docs/protocol/data-path.md, "Datagrams"). */
export class UdpEgress implements EgressBinding {
  readonly #forwarder: Forwarder;
  readonly #o: UdpEgressOptions;

  constructor(forwarder: Forwarder, options: UdpEgressOptions) {
    this.#forwarder = forwarder;
    this.#o = options;
  }

  dial(request: EgressRequest): Promise<Map<number, Buffer>> {
    const target = targetOf(request.destination, "transport_udp", ["udp", "udp4", "udp6"]);
    const o = { ...this.#o, target, timeoutMs: request.timeoutMs, hopType: "xgress/transport_udp" };
    return dialUdp(this.#forwarder, request, o);
  }
}

/**
 * A connected UDP socket at the end of a circuit. It lives as long as the circuit.
 *
 * @throws EgressError as TCP's, although of a service that is not there mostly nothing is heard
 */
export async function dialUdp(
  forwarder: Forwarder,
  request: EgressRequest,
  o: UdpEgressOptions & { target: Address; timeoutMs: number; hopType: string },
): Promise<Map<number, Buffer>> {
  const { target, timeoutMs } = o;
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = AbortSignal.any([request.signal, timeout]);
  const aborted = new Promise<never>((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  aborted.catch(() => {});
  const family = target.protocol === "udp4" ? 4 : target.protocol === "udp6" ? 6 : 0;
  let address: { address: string; family: number };
  try {
    const known = isIP(target.host);
    if (known !== 0 && family !== 0 && known !== family) {
      throw new Error(`${target.host} is no IPv${family} address`);
    }
    address =
      known === 0
        ? await Promise.race([lookup(target.host, { family }), aborted])
        : { address: target.host, family: known };
  } catch (error) {
    if (request.signal.aborted) throw request.signal.reason;
    throw dialError(error, timeout.aborted, { target, timeoutMs });
  }
  const socket = createSocket(address.family === 6 ? "udp6" : "udp4");
  try {
    if (o.localAddress !== undefined) {
      const bound = once(socket, "listening", { signal });
      socket.bind({ address: o.localAddress });
      await bound;
    }
    const connected = once(socket, "connect", { signal });
    socket.connect(target.port, address.address);
    await connected;
  } catch (error) {
    socket.on("error", () => {});
    socket.close();
    if (request.signal.aborted) throw request.signal.reason;
    throw dialError(error, timeout.aborted, { target, timeoutMs });
  }
  let isOpen = true;
  const port = new DatagramPort({
    hopType: o.hopType,
    send: (buffer, start, end) => {
      // The socket may keep the bytes for a while, the read buffer does not.
      if (isOpen && socket.getSendQueueSize() < MAX_WAITING) socket.send(Buffer.from(buffer.subarray(start, end)));
    },
    onEnd: (reason) => {
      if (!isOpen) return;
      isOpen = false;
      socket.close();
      xgress.close(reason);
    },
  });
  const { circuitId, address: at } = request;
  const xgress = new Xgress({ fabric: forwarder, circuitId, address: at, side: "terminator", port, options: o.xgress });
  socket.on("message", (bytes) => {
    if (!port.isFull) port.isFull = !xgress.write(bytes, 0, bytes.length);
  });
  // "Port unreachable" comes back as an error of the next call; a service may be about to start.
  socket.on("error", () => {});
  const local = socket.address();
  return addressesOf([local.address, local.port], [address.address, target.port]);
}
