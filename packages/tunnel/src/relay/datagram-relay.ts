import type { OverlayConnection, OverlayHandler } from "../overlay.ts";
import type { Relay } from "./relays.ts";

/** Where the datagrams of an application come from and go to: a flow of a client, or a socket to a target. */
export interface DatagramEnd {
  /** Datagrams that came before this call first; valid during the call only. */
  onMessage(listener: (datagram: Buffer) => void): void;
  send(buffer: Buffer, start: number, end: number): void;
  onClose(listener: (reason?: string) => void): void;
  close(): void;
}

/** Datagrams that wait for a circuit that takes no more; further ones are lost, as on any network. */
const MAX_HELD = 64;

/** Datagrams joined to a circuit, each one message. Both ends close together. */
export class DatagramRelay implements OverlayHandler, Relay {
  readonly #end: DatagramEnd;
  readonly #connection: OverlayConnection;
  readonly #onEnd: (reason: string) => void;
  #held: Buffer[] = [];
  #hasRoom = true;
  #isOver = false;

  /** @param onEnd called once when both are closed */
  constructor(end: DatagramEnd, connection: OverlayConnection, onEnd: (reason: string) => void) {
    this.#end = end;
    this.#connection = connection;
    this.#onEnd = onEnd;
  }

  start(): void {
    this.#connection.start(this);
    this.#end.onClose((reason) => this.close(reason ?? "the datagrams' end was closed"));
    if (!this.#isOver) this.#end.onMessage((datagram) => this.#take(datagram));
  }

  close(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#held = [];
    this.#connection.close(reason);
    this.#end.close();
    this.#onEnd(reason);
  }

  // From the circuit --------------------------------------------------------------------------------------------------

  data(buffer: Buffer, start: number, end: number): boolean {
    if (!this.#isOver) this.#end.send(buffer, start, end);
    return true;
  }

  endOfData(): void {
    this.close("the other end has ended");
  }

  writable(): void {
    this.#hasRoom = true;
    while (this.#hasRoom && !this.#isOver) {
      const datagram = this.#held.shift();
      if (datagram === undefined) return;
      this.#write(datagram);
    }
  }

  closed(error?: Error): void {
    this.close(error?.message ?? "the circuit ended");
  }

  // From the application ----------------------------------------------------------------------------------------------

  #take(datagram: Buffer): void {
    if (this.#isOver) return;
    if (this.#hasRoom) this.#write(datagram);
    else if (this.#held.length < MAX_HELD) this.#held.push(Buffer.from(datagram));
  }

  #write(datagram: Buffer): void {
    this.#hasRoom = this.#connection.write(datagram, 0, datagram.length);
  }
}

/** Kept at most until there is a listener; further ones are lost, as on any network. */
const MAX_KEPT = { datagrams: 64, bytes: 128 * 1024 };

/** Datagrams on their way to a listener. What comes before there is one is kept. */
export class DatagramInbox {
  #kept: Buffer[] = [];
  #keptBytes = 0;
  #listener: ((datagram: Buffer) => void) | undefined;

  /** Takes bytes that are valid during the call only. */
  take(datagram: Buffer): void {
    if (this.#listener !== undefined) {
      this.#listener(datagram);
      return;
    }
    if (this.#kept.length >= MAX_KEPT.datagrams || this.#keptBytes + datagram.length > MAX_KEPT.bytes) return;
    this.#kept.push(Buffer.from(datagram));
    this.#keptBytes += datagram.length;
  }

  /** From now on the listener gets every datagram, at once those that were kept; each is valid during the call only. */
  listen(listener: (datagram: Buffer) => void): void {
    const kept = this.#kept;
    this.clear();
    this.#listener = listener;
    for (const datagram of kept) listener(datagram);
  }

  /** Drops what was kept: there will be no listener. */
  clear(): void {
    this.#kept = [];
    this.#keptBytes = 0;
  }
}
