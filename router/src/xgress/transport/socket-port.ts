import type { Socket } from "node:net";
import {
  ALIGNED_PAYLOAD_SIZE,
  CLOSED_BY_NETWORK,
  type ControlMessage,
  cutSocket,
  type Delivery,
  EdgeFlag,
  installUserBuffer,
  type LocalPort,
  lingerSocket,
  SocketOutput,
  type Xgress,
} from "@sallyport/wire";
import { traceAnswerAt } from "../trace-answer.ts";

/** One read fills four payloads exactly, so no short one trails each read. Shared: its bytes are consumed at once. */
const READ_BUFFER = Buffer.allocUnsafeSlow(4 * ALIGNED_PAYLOAD_SIZE);

export interface SocketPortOptions {
  /** What this end calls itself in answers to trace routes. */
  readonly hopType: string;
  /** Payloads of at most this many bytes; 0: as they fill a TLS record. */
  readonly mtu: number;
}

/** A byte stream at the end of a circuit: a TCP connection, or TLS over it. */
export class SocketPort implements LocalPort {
  /** The option of `net.connect` and `tls.connect` that reads into the shared buffer. */
  readonly onread = { buffer: READ_BUFFER, callback: (length: number) => this.#read(READ_BUFFER, length) };
  readonly #hopType: string;
  readonly #bodySize: number;
  #socket: Socket | undefined;
  #output: SocketOutput | undefined;
  #xgress: Xgress | undefined;
  /** What a service said before there was an xgress. */
  #early: Buffer | undefined;
  #ended = false;
  #finished = false;

  constructor(o: SocketPortOptions) {
    this.#hopType = o.hopType;
    this.#bodySize = o.mtu > 0 ? Math.min(o.mtu, ALIGNED_PAYLOAD_SIZE) : ALIGNED_PAYLOAD_SIZE;
  }

  /** Joins a connected socket to its xgress. Reading is the caller's: by this port's `onread`, or as in {@link attachExisting}. */
  attachDialled(socket: Socket, xgress: Xgress): void {
    this.#socket = socket;
    this.#xgress = xgress;
    this.#output = new SocketOutput(socket, () => xgress.deliverHeld());
    socket.on("end", () => xgress.endInput());
    socket.on("error", (error) => xgress.writeFailed(`the connection failed: ${error.message}`));
    socket.on("close", () => xgress.close("the connection was closed"));
    if (socket.destroyed) xgress.close("the connection was closed");
    const early = this.#early;
    this.#early = undefined;
    if (early !== undefined && this.#read(early, early.length)) socket.resume();
    // What arrived before there was a socket to write to.
    xgress.deliverHeld();
  }

  /**
   * Joins a socket that exists already, paused and with `allowHalfOpen`, to its xgress, and reads it.
   *
   * @param early what was read from it before
   */
  attachExisting(socket: Socket, xgress: Xgress, early?: Buffer): void {
    const read = installUserBuffer(socket, READ_BUFFER, this.onread.callback);
    this.attachDialled(socket, xgress);
    if (early !== undefined) this.#read(early, early.length);
    for (const bytes of read ?? []) this.#read(bytes, bytes.length);
    if (read === undefined) {
      socket.on("data", (bytes: Buffer) => {
        if (!this.#read(bytes, bytes.length)) socket.pause();
      });
    }
    // Its end may have been seen together with what was read before.
    if (socket.readableEnded) xgress.endInput();
    socket.resume();
  }

  deliver(delivery: Delivery): boolean {
    const output = this.#output;
    if (output === undefined || output.isFull) return false;
    if (!this.#finished) output.append(delivery.buffer, delivery.start, delivery.end);
    if (delivery.edgeFlags >= 0 && (delivery.edgeFlags & EdgeFlag.Fin) !== 0) this.endOfData();
    return true;
  }

  endOfData(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#output?.flush();
    this.#socket?.end();
  }

  resume(): void {
    this.#socket?.resume();
  }

  stopSending(): void {
    this.#socket?.resume();
  }

  closed(reason: string): void {
    const socket = this.#socket;
    if (this.#ended || socket === undefined) return;
    this.#ended = true;
    if (!this.#finished && reason === CLOSED_BY_NETWORK) {
      cutSocket(socket);
      return;
    }
    this.endOfData();
    lingerSocket(socket);
  }

  trace(message: ControlMessage): ControlMessage {
    return traceAnswerAt(this.#hopType, message);
  }

  traceAnswered(): void {
    // This end asks nothing.
  }

  #read(buffer: Buffer, length: number): boolean {
    const xgress = this.#xgress;
    if (this.#ended) return true;
    if (xgress === undefined) {
      this.#early = Buffer.concat([this.#early ?? Buffer.alloc(0), buffer.subarray(0, length)]);
      return false;
    }
    let room = true;
    for (let at = 0; at < length; at += this.#bodySize) {
      room = xgress.write(buffer, at, Math.min(length, at + this.#bodySize));
    }
    return room;
  }
}
