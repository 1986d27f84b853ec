import type { Logger } from "@sallyport/wire";
import type { ClientAddresses, UdpFlow } from "../interceptor.ts";
import { DatagramInbox } from "./datagram-relay.ts";

/** How the datagrams of one flow reach its client. */
export interface FlowTransport {
  /** Takes bytes that are valid during the call only. */
  send(bytes: Buffer): void;
  close(): void;
}

export interface FlowEvents {
  /** A further datagram of the client; valid during the call only. */
  message(bytes: Buffer): void;
  /** The flow cannot go on: the client's port is closed, or its socket could not be made. */
  ended(reason: Error): void;
}

export type OpenTransport = (addresses: ClientAddresses, events: FlowEvents) => FlowTransport;

/** A flow of a client's datagrams: they wait for a listener, and either side's end of the flow is reported once. */
export class ClientFlow implements UdpFlow {
  readonly addresses: ClientAddresses;
  /** Of either direction, by the monotonic clock. */
  lastUse = performance.now();
  isClosed = false;
  readonly #transport: FlowTransport | undefined;
  readonly #onGone: () => void;
  readonly #inbox = new DatagramInbox();
  #onClose: (() => void) | undefined;

  /** It is closed at once when no transport can be had. @param onGone for who keeps the flows */
  constructor(addresses: ClientAddresses, open: OpenTransport, onGone: () => void, log: Logger) {
    this.addresses = addresses;
    this.#onGone = onGone;
    try {
      this.#transport = open(addresses, {
        message: (bytes) => this.take(bytes),
        ended: (err) => {
          log.debug({ ...addresses, err }, "UDP flow ended");
          this.close();
        },
      });
    } catch (err) {
      log.warn({ ...addresses, err }, "a UDP flow could not be made");
      this.close();
    }
  }

  take(bytes: Buffer): void {
    if (this.isClosed) return;
    this.lastUse = performance.now();
    this.#inbox.take(bytes);
  }

  onMessage(listener: (datagram: Buffer) => void): void {
    this.#inbox.listen(listener);
  }

  send(buffer: Buffer, start: number, end: number): void {
    if (this.isClosed) return;
    this.lastUse = performance.now();
    this.#transport?.send(buffer.subarray(start, end));
  }

  onClose(listener: () => void): void {
    if (this.isClosed) queueMicrotask(listener);
    else this.#onClose = listener;
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#inbox.clear();
    this.#transport?.close();
    this.#onGone();
    this.#onClose?.();
  }
}
