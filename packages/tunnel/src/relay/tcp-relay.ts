import type { Socket } from "node:net";
import { cutSocket, installUserBuffer, lingerSocket, SocketOutput } from "@sallyport/wire";
import type { OverlayConnection, OverlayHandler } from "../overlay.ts";
import type { Relay } from "./relays.ts";

/** Messages that one read fills exactly, so that no short one trails each read. */
const MESSAGES_PER_READ = 4;

/** Read buffers by size, shared by all sockets of the thread: their bytes are consumed before the next socket is read. */
const readBuffers = new Map<number, Buffer>();

function readBuffer(messageSize: number): Buffer {
  const size = MESSAGES_PER_READ * messageSize;
  let buffer = readBuffers.get(size);
  if (buffer === undefined) {
    buffer = Buffer.allocUnsafeSlow(size);
    readBuffers.set(size, buffer);
  }
  return buffer;
}

/** A TCP connection joined to a circuit: bytes both ways with back-pressure, each direction ended on its own. */
export class TcpRelay implements OverlayHandler, Relay {
  readonly #socket: Socket;
  readonly #connection: OverlayConnection;
  readonly #onEnd: (reason: string) => void;
  readonly #output: SocketOutput;
  readonly #messageSize: number;
  #isBlocked = false;
  #hasEndedWriting = false;
  #isCircuitClosed = false;
  #isOver = false;

  /**
   * @param socket connected, paused, with `allowHalfOpen`
   * @param onEnd called once when both are closed
   */
  constructor(socket: Socket, connection: OverlayConnection, onEnd: (reason: string) => void) {
    this.#socket = socket;
    this.#connection = connection;
    this.#onEnd = onEnd;
    this.#messageSize = connection.maxMessage;
    this.#output = new SocketOutput(socket, () => {
      if (!this.#isBlocked) return;
      this.#isBlocked = false;
      connection.resume();
    });
  }

  start(): void {
    const socket = this.#socket;
    socket.setNoDelay(true);
    socket.on("end", () => this.#connection.endWriting());
    socket.on("error", (error) => this.#end(`the connection to the application failed: ${error.message}`));
    socket.on("close", () => this.#end("the application closed the connection"));
    this.#connection.start(this);
    if (socket.destroyed) {
      this.#end("the application closed the connection");
      return;
    }
    const buffer = readBuffer(this.#messageSize);
    const early = installUserBuffer(socket, buffer, (length) => this.#read(buffer, length));
    if (early === undefined) {
      socket.on("data", (bytes: Buffer) => {
        if (!this.#read(bytes, bytes.length)) socket.pause();
      });
      socket.resume();
      return;
    }
    let hasRoom = true;
    for (const bytes of early) hasRoom = this.#read(bytes, bytes.length);
    if (hasRoom) socket.resume();
  }

  close(reason: string): void {
    this.#connection.close(reason);
    this.closed();
  }

  // From the circuit --------------------------------------------------------------------------------------------------

  data(buffer: Buffer, start: number, end: number): boolean {
    if (this.#hasEndedWriting) return true;
    if (this.#output.isFull) {
      this.#isBlocked = true;
      return false;
    }
    this.#output.append(buffer, start, end);
    return true;
  }

  endOfData(): void {
    if (this.#hasEndedWriting) return;
    this.#hasEndedWriting = true;
    this.#output.flush();
    this.#socket.end();
  }

  writable(): void {
    this.#socket.resume();
  }

  closed(error?: Error): void {
    this.#isCircuitClosed = true;
    // The application must not take a cut stream for a whole one.
    if (error !== undefined || !this.#hasEndedWriting) cutSocket(this.#socket);
    else lingerSocket(this.#socket);
  }

  // From the socket ---------------------------------------------------------------------------------------------------

  #read(buffer: Buffer, length: number): boolean {
    if (this.#isCircuitClosed) return true;
    let hasRoom = true;
    for (let at = 0; at < length; at += this.#messageSize) {
      hasRoom = this.#connection.write(buffer, at, Math.min(length, at + this.#messageSize));
    }
    return hasRoom;
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (!this.#isCircuitClosed) this.#connection.close(reason);
    this.#onEnd(reason);
  }
}
