import type { Socket } from "node:dgram";
import { DatagramInbox } from "../relay/datagram-inbox.ts";
import type { DatagramEnd } from "../relay/datagram-relay.ts";

/** A UDP socket that is connected to a target. */
export type UdpTarget = DatagramEnd;

/** Datagrams to and from one target; others' are not seen. A target that refuses them closes it. */
export class UdpTargetSocket implements UdpTarget {
  readonly #socket: Socket;
  readonly #inbox = new DatagramInbox();
  #onClose: ((reason?: string) => void) | undefined;
  #isClosed = false;
  #failure: string | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("message", (datagram) => this.#inbox.take(datagram));
    socket.on("error", (error) => this.#fail(`the target refuses datagrams: ${error.message}`));
  }

  onMessage(listener: (datagram: Buffer) => void): void {
    this.#inbox.listen(listener);
  }

  send(buffer: Buffer, start: number, end: number): void {
    if (this.#isClosed) return;
    // The bytes belong to the caller again when this returns.
    this.#socket.send(Buffer.from(buffer.subarray(start, end)), (error) => {
      if (error !== null) this.#fail(`a datagram cannot be sent: ${error.message}`);
    });
  }

  onClose(listener: (reason?: string) => void): void {
    this.#onClose = listener;
    if (this.#failure !== undefined) listener(this.#failure);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#socket.close();
  }

  #fail(reason: string): void {
    if (this.#isClosed) return;
    this.#failure = reason;
    this.close();
    this.#onClose?.(reason);
  }
}
