import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { isIPv6 } from "node:net";
import { type Logger, SharedPlaces } from "@sallyport/wire";
import type { ClientAddresses, Interception, UdpFlow } from "../interceptor.ts";
import { ClientFlow, type FlowTransport } from "../relay/client-flow.ts";

/** Clients of one port at a time, half of them from one address; datagrams of further ones are dropped. */
const MAX_FLOWS = 10_000;

export interface UdpPortOptions {
  readonly address: string;
  readonly port: number;
  readonly idleMs: number;
  readonly onFlow: (flow: UdpFlow) => void;
  /** 10,000 when not given. */
  readonly maxFlows?: number;
  readonly log: Logger;
}

/** A UDP port whose clients are distinguished by their address; idle ones are forgotten. */
export class UdpPort implements Interception {
  readonly #socket: Socket;
  readonly #o: UdpPortOptions;
  #onFlow: (flow: UdpFlow) => void;
  readonly #flows = new Map<string, ClientFlow>();
  readonly #places: SharedPlaces;
  readonly #scan: NodeJS.Timeout;
  #isClosing = false;

  private constructor(socket: Socket, o: UdpPortOptions) {
    this.#socket = socket;
    this.#o = o;
    this.#onFlow = o.onFlow;
    const places = o.maxFlows ?? MAX_FLOWS;
    this.#places = new SharedPlaces({ places, perAddress: Math.ceil(places / 2) });
    socket.on("message", (datagram, from) => this.#take(datagram, from));
    // A client that has gone answers with errors; it goes idle.
    socket.on("error", () => {});
    this.#scan = setInterval(() => this.#forgetIdle(), Math.max(1, Math.min(30_000, o.idleMs / 2)));
    this.#scan.unref();
  }

  /** @throws the system's error when the port cannot be opened */
  static async open(o: UdpPortOptions): Promise<UdpPort> {
    const socket = createSocket({ type: isIPv6(o.address) ? "udp6" : "udp4" });
    try {
      socket.bind({ address: o.address, port: o.port, exclusive: true });
      await once(socket, "listening");
    } catch (error) {
      socket.close();
      throw error;
    }
    return new UdpPort(socket, o);
  }

  /** No new clients are taken. */
  get isClosing(): boolean {
    return this.#isClosing;
  }

  /** The socket is closed. */
  get isClosed(): boolean {
    return this.#isClosing && this.#flows.size === 0;
  }

  /** Takes new clients again, for `onFlow`; those that were left stay whose they are. */
  reopen(onFlow: (flow: UdpFlow) => void): this {
    this.#isClosing = false;
    this.#onFlow = onFlow;
    return this;
  }

  /** No new clients; the socket closes with the last one that is left. */
  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#closeIfUnused();
  }

  #take(datagram: Buffer, from: RemoteInfo): void {
    // No answer can be sent to port 0.
    if (from.port === 0) return;
    const key = `${from.address} ${from.port}`;
    let flow = this.#flows.get(key);
    if (flow === undefined) {
      if (this.#isClosing) return;
      // No flow gives way to a new one: either source may be forged.
      const place = this.#places.take(from.address, () => {});
      if (place === undefined) return;
      place.settle();
      flow = new ClientFlow(
        this.#addresses(from),
        () => this.#wayTo(from),
        () => {
          place.release();
          this.#forget(key);
        },
        this.#o.log,
      );
      this.#flows.set(key, flow);
      this.#onFlow(flow);
    }
    flow.take(datagram);
  }

  #addresses(from: RemoteInfo): ClientAddresses {
    return {
      protocol: "udp",
      sourceIp: from.address,
      sourcePort: from.port,
      destinationIp: this.#o.address,
      destinationPort: this.#o.port,
    };
  }

  #wayTo({ address, port }: RemoteInfo): FlowTransport {
    return {
      // A datagram that cannot be sent is lost, as on any network.
      send: (bytes) => this.#socket.send(Buffer.from(bytes), port, address, () => {}),
      close: () => {},
    };
  }

  #forget(key: string): void {
    this.#flows.delete(key);
    if (this.#isClosing) this.#closeIfUnused();
  }

  #forgetIdle(): void {
    const before = performance.now() - this.#o.idleMs;
    for (const flow of this.#flows.values()) if (flow.lastUse < before) flow.close();
  }

  #closeIfUnused(): void {
    if (this.#flows.size > 0) return;
    clearInterval(this.#scan);
    this.#socket.close();
  }
}
