import type { EndToEnd } from "@sallyport/sdk";
import type { ConnectionKind, OverlayConnection, OverlayHandler } from "@sallyport/tunnel";
import {
  ALIGNED_PAYLOAD_SIZE,
  CLOSED_BY_OTHER_END,
  type ControlMessage,
  type Delivery,
  EdgeFlag,
  type LocalPort,
  type Xgress,
} from "@sallyport/wire";
import { traceAnswerAt } from "../xgress/trace-answer.ts";

/** The largest datagram there is. */
const MAX_DATAGRAM = 65_507;

/** The side of a connection that its xgress sees. Its `resume` is about the other direction than a connection's. */
class ConnectionPort implements LocalPort {
  readonly #connection: CircuitConnection;

  constructor(connection: CircuitConnection) {
    this.#connection = connection;
  }

  get carriesDatagrams(): boolean {
    return this.#connection.kind === "datagrams";
  }

  deliver(delivery: Delivery): boolean {
    return this.#connection.delivered(delivery);
  }

  endOfData(): void {
    this.#connection.otherEndFinished();
  }

  resume(): void {
    this.#connection.hasRoom();
  }

  stopSending(): void {
    // What is written from now on is dropped; a writer that waits for room must not wait without end.
    this.#connection.hasRoom();
  }

  closed(reason: string): void {
    this.#connection.ended(reason);
  }

  trace(message: ControlMessage): ControlMessage {
    return traceAnswerAt(this.#connection.hopType, message);
  }

  traceAnswered(): void {
    // This end asks nothing.
  }
}

/**
 * The end of a circuit in this router, as its tunneler sees it: bytes in and out, encrypted between the ends when both
 * gave their keys. The xgress holds what arrives before there is a handler.
 */
export class CircuitConnection implements OverlayConnection {
  readonly circuitId: string;
  readonly maxMessage: number;
  /** What this end calls itself in answers to trace routes. */
  readonly hopType: string;
  /** What the xgress is made with. */
  readonly port: LocalPort = new ConnectionPort(this);
  readonly kind: ConnectionKind;
  readonly #endToEnd: EndToEnd | undefined;
  readonly #onEnd: () => void;
  #xgress: Xgress | undefined;
  #handler: OverlayHandler | undefined;
  /** There was room again before there was a handler to tell. */
  #hadRoom = false;
  /** Plain bytes that were decrypted and found no room. */
  #refused: Buffer | undefined;
  /** What has to be said when they are gone. */
  #sawEnd = false;
  #toldEnd = false;
  #end: { readonly error: Error | undefined } | undefined;
  #closed = false;

  /**
   * @param o.mtu streams are cut to bodies of at most this many bytes; 0: as they fill a TLS record
   * @param o.onEnd called once, when the circuit has ended
   */
  constructor(o: {
    circuitId: string;
    kind: ConnectionKind;
    endToEnd?: EndToEnd | undefined;
    mtu: number;
    hopType: string;
    onEnd: () => void;
  }) {
    this.circuitId = o.circuitId;
    this.hopType = o.hopType;
    this.kind = o.kind;
    this.#endToEnd = o.endToEnd;
    this.#onEnd = o.onEnd;
    const body = o.mtu > 0 ? Math.min(o.mtu, ALIGNED_PAYLOAD_SIZE) : ALIGNED_PAYLOAD_SIZE;
    this.maxMessage = o.kind === "datagrams" ? MAX_DATAGRAM : Math.max(1, body - (o.endToEnd?.overhead ?? 0));
  }

  /** Joins the connection to its end of the circuit; the header of an encrypted stream is the first that it sends. */
  join(xgress: Xgress): void {
    this.#xgress = xgress;
    const header = this.#endToEnd?.header;
    if (header !== undefined) xgress.write(header, 0, header.length);
  }

  // For the tunneler ------------------------------------------------------------------------------------------------

  start(handler: OverlayHandler): void {
    setImmediate(() => {
      if (this.#closed) return;
      this.#handler = handler;
      if (this.#hadRoom) handler.writable();
      this.resume();
    });
  }

  write(buffer: Buffer, start: number, end: number): boolean {
    const xgress = this.#xgress;
    if (xgress === undefined) return true;
    if (this.kind === "datagrams") return this.#writePiece(xgress, buffer, start, end);
    let room = true;
    for (let at = start; at < end; at += this.maxMessage) {
      room = this.#writePiece(xgress, buffer, at, Math.min(end, at + this.maxMessage));
    }
    return room;
  }

  endWriting(): void {
    this.#xgress?.endInput();
  }

  resume(): void {
    const refused = this.#refused;
    if (refused !== undefined) {
      if (this.#handler?.data(refused, 0, refused.length) !== true) return;
      this.#refused = undefined;
    }
    this.#xgress?.deliverHeld();
    this.#tellEnd();
  }

  close(reason = "the tunneler closed the connection"): void {
    this.#stopListening();
    this.#xgress?.close(reason);
  }

  // For its port ----------------------------------------------------------------------------------------------------

  delivered(delivery: Delivery): boolean {
    if (this.#closed) return true;
    const handler = this.#handler;
    if (handler === undefined || this.#refused !== undefined) return false;
    const { buffer, start, end, edgeFlags } = delivery;
    if (end > start) {
      if (this.#endToEnd === undefined) {
        if (!handler.data(buffer, start, end)) return false;
      } else if (!this.#deliverSealed(this.#endToEnd, handler, buffer, start, end)) return true;
    }
    if (edgeFlags >= 0 && (edgeFlags & EdgeFlag.Fin) !== 0) this.otherEndFinished();
    return true;
  }

  otherEndFinished(): void {
    this.#sawEnd = true;
    this.#tellEnd();
  }

  hasRoom(): void {
    if (this.#handler === undefined) this.#hadRoom = true;
    else this.#handler.writable();
  }

  ended(reason: string): void {
    this.#onEnd();
    // Closed in its order: that was all its data, too.
    if (reason === CLOSED_BY_OTHER_END) this.#sawEnd = true;
    this.#end = { error: this.#sawEnd ? undefined : new Error(`circuit ${this.circuitId} ended: ${reason}`) };
    this.#tellEnd();
  }

  /** @returns false: the connection was closed */
  #deliverSealed(endToEnd: EndToEnd, handler: OverlayHandler, buffer: Buffer, start: number, end: number): boolean {
    let plain: Buffer | undefined;
    try {
      plain = endToEnd.open(buffer, start, end);
    } catch (error) {
      this.#stopListening();
      handler.closed(error instanceof Error ? error : new Error(String(error)));
      this.#xgress?.close("the other end's encryption cannot be read");
      return false;
    }
    // An encrypted message cannot be opened twice: what finds no room is kept.
    if (plain !== undefined && !handler.data(plain, 0, plain.length)) this.#refused = Buffer.from(plain);
    return true;
  }

  #writePiece(xgress: Xgress, buffer: Buffer, start: number, end: number): boolean {
    return this.#endToEnd === undefined
      ? xgress.write(buffer, start, end)
      : xgress.writeSealed(this.#endToEnd, buffer, start, end);
  }

  /** The end of data and of the connection, behind everything that arrived before. */
  #tellEnd(): void {
    const handler = this.#handler;
    if (handler === undefined || this.#refused !== undefined) return;
    if (this.#sawEnd && !this.#toldEnd) {
      this.#toldEnd = true;
      handler.endOfData();
    }
    if (this.#end === undefined || this.#closed) return;
    this.#stopListening();
    handler.closed(this.#end.error);
  }

  #stopListening(): void {
    this.#closed = true;
    this.#handler = undefined;
    this.#refused = undefined;
  }
}
