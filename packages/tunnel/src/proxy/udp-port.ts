import { createSocket, type RemoteInfo, type Socket } from "node:dgram";
import { once } from "node:events";
import { isIPv6 } from "node:net";
import type { ClientAddresses, Interception, UdpFlow } from "../interceptor.ts";
import { DatagramInbox } from "../relay/datagram-inbox.ts";

/** Clients of one port at a time; datagrams of further ones are dropped. */
const maxFlows = 10_000;

/** A UDP port whose clients are told apart by their address; idle ones are forgotten. */
export class UdpPort implements Interception {
  readonly #socket: Socket;
  readonly #address: string;
  readonly #port: number;
  readonly #idleMs: number;
  #onFlow: (flow: UdpFlow) => void;
  readonly #flows = new Map<string, Flow>();
  readonly #scan: NodeJS.Timeout;
  #isClosing = false;

  private constructor(
    socket: Socket,
    o: { address: string; port: number; idleMs: number; onFlow: (flow: UdpFlow) => void },
  ) {
    this.#socket = socket;
    this.#address = o.address;
    this.#port = o.port;
    this.#idleMs = o.idleMs;
    this.#onFlow = o.onFlow;
    socket.on("message", (datagram, from) => this.#take(datagram, from));
    // A client that has gone answers with errors; it goes idle.
    socket.on("error", () => {});
    this.#scan = setInterval(() => this.#forgetIdle(), Math.max(1, Math.min(30_000, o.idleMs / 2)));
    this.#scan.unref();
  }

  /** @throws the system's error when the port cannot be opened */
  static async open(o: {
    address: string;
    port: number;
    idleMs: number;
    onFlow: (flow: UdpFlow) => void;
  }): Promise<UdpPort> {
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
    // Port 0 is nobody's: no answer can be sent there.
    if (from.port === 0) return;
    const key = `${from.address} ${from.port}`;
    let flow = this.#flows.get(key);
    if (flow === undefined) {
      if (this.#isClosing || this.#flows.size >= maxFlows) return;
      flow = new Flow(this.#socket, this.#addresses(from), () => this.#forget(key));
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
      destinationIp: this.#address,
      destinationPort: this.#port,
    };
  }

  #forget(key: string): void {
    this.#flows.delete(key);
    if (this.#isClosing) this.#closeIfUnused();
  }

  #forgetIdle(): void {
    const before = performance.now() - this.#idleMs;
    for (const flow of this.#flows.values()) if (flow.lastUse < before) flow.end();
  }

  #closeIfUnused(): void {
    if (this.#flows.size > 0) return;
    clearInterval(this.#scan);
    this.#socket.close();
  }
}

/** One client of a port. */
class Flow implements UdpFlow {
  readonly addresses: ClientAddresses;
  lastUse = performance.now();
  readonly #socket: Socket;
  readonly #onForget: () => void;
  readonly #inbox = new DatagramInbox();
  #onClose: () => void = () => {};
  #isClosed = false;

  constructor(socket: Socket, addresses: ClientAddresses, onForget: () => void) {
    this.#socket = socket;
    this.addresses = addresses;
    this.#onForget = onForget;
  }

  take(datagram: Buffer): void {
    this.lastUse = performance.now();
    this.#inbox.take(datagram);
  }

  onMessage(listener: (datagram: Buffer) => void): void {
    this.#inbox.listen(listener);
  }

  send(buffer: Buffer, start: number, end: number): void {
    if (this.#isClosed) return;
    this.lastUse = performance.now();
    const { sourceIp, sourcePort } = this.addresses;
    // The bytes belong to the caller again when this returns; a datagram that cannot be sent is lost, as on any network.
    this.#socket.send(Buffer.from(buffer.subarray(start, end)), sourcePort, sourceIp, () => {});
  }

  onClose(listener: () => void): void {
    this.#onClose = listener;
  }

  /** The flow ends from this side. */
  end(): void {
    if (this.#isClosed) return;
    this.close();
    this.#onClose();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#inbox.clear();
    this.#onForget();
  }
}
