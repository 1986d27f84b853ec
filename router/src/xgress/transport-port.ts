import { Socket, type SocketConnectOpts } from "node:net";
import {
  alignedPayloadSize,
  type ControlMessage,
  type Delivery,
  EdgeFlag,
  type LocalPort,
  SocketOutput,
  TraceHeader,
  type Xgress,
  XgressControl,
} from "@sallyport/wire";

/** One read fills four payloads exactly, so no short one trails each read. Shared: its bytes are consumed at once. */
const READ_BUFFER = Buffer.allocUnsafeSlow(4 * alignedPayloadSize);
/** How long a socket may take to send its last bytes. */
const LINGER_MS = 10_000;
const HOP_TYPE = "xgress/transport";

/** A TCP connection at the end of a circuit. */
export class TransportPort implements LocalPort {
  readonly socket: Socket;
  /** Set before the connection is read. */
  xgress: Xgress | undefined;
  readonly #output: SocketOutput;
  #ended = false;
  #finished = false;

  /** Starts connecting; the caller waits for the socket's `connect` or `error`. */
  constructor(target: SocketConnectOpts) {
    this.socket = new Socket({
      allowHalfOpen: true,
      noDelay: true,
      onread: { buffer: READ_BUFFER, callback: (length: number) => this.#read(length) },
    } as ConstructorParameters<typeof Socket>[0]);
    this.#output = new SocketOutput(this.socket, () => this.xgress?.deliverHeld());
    this.socket.connect(target);
  }

  /** Joins the connected socket to its xgress. */
  attach(xgress: Xgress): void {
    this.xgress = xgress;
    this.socket.on("end", () => xgress.endInput());
    this.socket.on("error", (error) => xgress.writeFailed(`the connection to the service failed: ${error.message}`));
    this.socket.on("close", () => xgress.close("the service closed the connection"));
    if (this.socket.destroyed) xgress.close("the service closed the connection");
  }

  deliver(delivery: Delivery): boolean {
    if (this.#output.isFull) return false;
    if (!this.#finished) this.#output.append(delivery.buffer, delivery.start, delivery.end);
    if (delivery.edgeFlags >= 0 && (delivery.edgeFlags & EdgeFlag.Fin) !== 0) this.endOfData();
    return true;
  }

  endOfData(): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#output.flush();
    this.socket.end();
  }

  resume(): void {
    this.socket.resume();
  }

  stopSending(): void {
    this.socket.resume();
  }

  closed(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.endOfData();
    const linger = setTimeout(() => this.socket.destroy(), LINGER_MS);
    linger.unref();
    this.socket.once("close", () => clearTimeout(linger));
    // Nobody reads any more; what still comes is dropped, so that the end of the connection is seen.
    this.socket.resume();
  }

  trace(message: ControlMessage): ControlMessage | undefined {
    const headers = message.headers.clone();
    const hops = headers.getU32(TraceHeader.HopCount) ?? 0;
    headers.setU32(TraceHeader.HopCount, Math.max(0, hops - 1));
    headers.setString(TraceHeader.HopType, HOP_TYPE).setString(TraceHeader.HopId, "");
    return { ...message, kind: XgressControl.TraceRouteResponse, headers };
  }

  traceAnswered(): void {
    // A terminating end asks nothing.
  }

  #read(length: number): boolean {
    const xgress = this.xgress;
    if (xgress === undefined || this.#ended) return true;
    let room = true;
    for (let at = 0; at < length; at += alignedPayloadSize) {
      room = xgress.write(READ_BUFFER, at, Math.min(length, at + alignedPayloadSize));
    }
    return room;
  }
}
