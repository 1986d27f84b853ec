import { createSocket, type Socket } from "node:dgram";
import { isIPv6 } from "node:net";
import type { ClientAddresses } from "../interceptor.ts";
import type { FlowEvents, FlowTransport } from "../relay/client-flow.ts";
import type { NativeSockets } from "./native-sockets.ts";

/** Datagrams on their way out of a process, per flow, in bytes; further ones are dropped, as on any full queue. */
const MAX_QUEUED_BYTES = 1024 * 1024;
const MAX_BEFORE_CONNECTED = 64;

/**
 * A socket of one flow: bound to the destination that the client sent to and connected to the client. Answers leave from the
 * right address, and the kernel gives it all further datagrams of the flow, past the socket that takes the first ones.
 */
export class FlowSocket implements FlowTransport {
  readonly #socket: Socket;
  #isConnected = false;
  #isClosed = false;
  #early: Buffer[] = [];

  /** @throws InterceptError when the destination cannot be sent from */
  constructor(addresses: ClientAddresses, events: FlowEvents, native: NativeSockets) {
    const { sourceIp, sourcePort, destinationIp, destinationPort } = addresses;
    // Node itself binds to no IPv6 address that the host has only by a route. Before there is a socket, which nobody would close.
    const fd = native.bindUdp(destinationIp, destinationPort);
    const socket = createSocket(isIPv6(destinationIp) ? "udp6" : "udp4");
    this.#socket = socket;
    socket.on("message", (bytes) => events.message(bytes));
    socket.on("error", (error) => events.ended(error));
    socket.once("connect", () => {
      this.#isConnected = true;
      for (const bytes of this.#early) this.#send(bytes);
      this.#early = [];
    });
    socket.bind({ fd, exclusive: true }, () => {
      if (!this.#isClosed) socket.connect(sourcePort, sourceIp);
    });
  }

  send(bytes: Buffer): void {
    if (this.#isConnected) this.#send(Buffer.from(bytes));
    else if (this.#early.length < MAX_BEFORE_CONNECTED) this.#early.push(Buffer.from(bytes));
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#early = [];
    this.#socket.close();
  }

  #send(bytes: Buffer): void {
    // A client whose port is closed shows as an error of the socket; one datagram that cannot leave is lost, as datagrams may be.
    if (!this.#isClosed && this.#socket.getSendQueueSize() < MAX_QUEUED_BYTES) this.#socket.send(bytes, () => {});
  }
}
