import {
  type BodySealer,
  ChannelClosedError,
  CLOSED_BY_OTHER_END,
  ConnType,
  type ControlMessage,
  type Delivery,
  EdgeFlag,
  EdgeHeader,
  EdgeType,
  type FairOutput,
  type FrameView,
  Headers,
  type LocalPort,
  type Message,
  type Side,
  type Waiter,
  writeCircuitFrame,
  Xgress,
  type XgressEnd,
  type XgressFabric,
  type XgressPath,
  XgressType,
  xgressDefaults,
} from "@sallyport/wire";
import type { EdgeChannel, EdgeEndpoint } from "../edge-channel.ts";
import type { Carrier, CarrierReceiver } from "./carrier.ts";

/** An acknowledgement behind this much is of no use any more. */
const MAX_ACK_BACKLOG = 8 * 1024 * 1024;

/** How long payloads may arrive behind the message that the circuit is gone: routers in the field send it ahead of them. */
const OVERTAKEN_MS = 1_000;

/**
 * A connection as the end of a circuit whose flow control is done here: a reader that stops holds up nothing but its own
 * circuit (docs/protocol/edge.md "Flow control by the SDK").
 */
export class FlowCarrier implements Carrier, EdgeEndpoint, LocalPort {
  readonly connType = ConnType.Dial;
  readonly #receiver: CarrierReceiver;
  readonly #xgress: Xgress;
  readonly #way: EdgeWay;
  #isFull = false;
  #sawEnd = false;
  #isClosed = false;
  /** Runs while payloads may follow the message that the circuit is gone. */
  #overtaken: NodeJS.Timeout | undefined;

  constructor(
    edge: EdgeChannel,
    id: number,
    o: { readonly circuitId: string; readonly address: string; readonly side: Side },
    receiver: CarrierReceiver,
  ) {
    this.#receiver = receiver;
    const way = new EdgeWay(edge, id, this, o.circuitId);
    this.#way = way;
    const { pool, counters, acks, scans } = edge.circuits;
    const fabric: XgressFabric = { pool, counters, acks, scans, register: (end) => way.of(end) };
    this.#xgress = new Xgress({ fabric, ...o, port: this, options: xgressDefaults });
    if (o.side === "initiator") this.#xgress.start();
  }

  // From the router ---------------------------------------------------------------------------------------------------

  describe(): string {
    return this.#receiver.describe();
  }

  onData(): void {
    // Data messages belong to connections without flow control here.
  }

  onCircuitFrame(frame: FrameView): void {
    if (frame.contentType === XgressType.Payload) {
      this.#xgress.payload(frame);
      if (!this.#way.isCut) return;
      if (this.#overtaken !== undefined) this.#awaitOvertaken();
      this.#endWhenRead();
    } else if (frame.contentType === XgressType.Acknowledgement) this.#xgress.ack(frame);
  }

  onMessage(message: Message): void {
    if (message.contentType !== EdgeType.StateClosed || this.#way.isCut) return;
    // The circuit is gone, but what arrived of it, and what was overtaken by this message, can still be read.
    this.#way.isCut = true;
    this.#xgress.cut();
    if (!this.#sawEnd && !this.#isClosed) this.#awaitOvertaken();
    this.#endWhenRead();
  }

  onLost(reason: Error | undefined): void {
    this.#way.isCut = true;
    if (this.#sawEnd || this.#isClosed) {
      this.#xgress.unrouted();
      return;
    }
    this.#isClosed = true;
    this.#xgress.unrouted();
    this.#receiver.lost(reason);
  }

  // Carrier -----------------------------------------------------------------------------------------------------------

  get isFull(): boolean {
    return this.#isFull;
  }

  write(buffer: Uint8Array, start: number, end: number, flags: number, sealer?: BodySealer): boolean {
    const bytes = buffer as Buffer;
    const room =
      sealer === undefined
        ? this.#xgress.write(bytes, start, end, flags === 0 ? -1 : flags)
        : this.#xgress.writeSealed(sealer, bytes, start, end);
    if (!room) this.#isFull = true;
    return room;
  }

  awaitRoom(): void {
    // The xgress calls `resume` by itself.
  }

  finish(): void {
    this.#xgress.endInput();
  }

  resumeReading(): void {
    if (this.#isClosed) return;
    this.#xgress.deliverHeld();
    if (this.#way.isCut) this.#endWhenRead();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#xgress.close("closed by the application");
    if (!this.#way.isGone) this.#way.edge.finishing(this);
  }

  // LocalPort ---------------------------------------------------------------------------------------------------------

  deliver(d: Delivery): boolean {
    if (this.#isClosed) return true;
    const flags = Math.max(d.edgeFlags, 0);
    if (d.end > d.start && !this.#receiver.message(d.buffer, d.start, d.end, flags)) return false;
    if ((flags & EdgeFlag.Fin) !== 0) this.endOfData();
    return true;
  }

  endOfData(): void {
    if (this.#sawEnd || this.#isClosed) return;
    this.#sawEnd = true;
    this.#stopWaiting();
    this.#receiver.endOfData();
  }

  stopSending(): void {
    // The other end takes nothing any more: what is written goes nowhere until it closes, which it does next.
    this.resume();
  }

  closed(reason: string): void {
    this.#stopWaiting();
    this.#way.edge.finished(this);
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#sawEnd || reason === CLOSED_BY_OTHER_END) this.#receiver.closed();
    else this.#receiver.cut();
  }

  trace(): ControlMessage | undefined {
    // Routers put trace routes to an SDK as messages of the edge.
    return undefined;
  }

  traceAnswered(): void {}

  resume(): void {
    if (!this.#isFull || this.#isClosed) return;
    this.#isFull = false;
    this.#receiver.writable();
  }

  #awaitOvertaken(): void {
    clearTimeout(this.#overtaken);
    const timer = setTimeout(() => {
      // What came while this process stood still is read first.
      setImmediate(() => {
        if (this.#overtaken !== timer) return;
        this.#overtaken = undefined;
        this.#endWhenRead();
      });
    }, OVERTAKEN_MS);
    this.#overtaken = timer.unref();
  }

  #stopWaiting(): void {
    clearTimeout(this.#overtaken);
    this.#overtaken = undefined;
  }

  #endWhenRead(): void {
    if (this.#overtaken === undefined && this.#xgress.held === 0) this.#xgress.unrouted();
  }
}

/** The way of a circuit into the fabric: the connection to the router, shared fairly with other circuits. */
class EdgeWay implements XgressPath {
  readonly edge: EdgeChannel;
  /** The router has forgotten the circuit: nothing goes there any more. */
  isCut = false;
  isGone = false;
  readonly #id: number;
  readonly #carrier: FlowCarrier;
  readonly #circuitId: string;
  #end: XgressEnd | undefined;
  #output: FairOutput | undefined;

  constructor(edge: EdgeChannel, id: number, carrier: FlowCarrier, circuitId: string) {
    this.edge = edge;
    this.#id = id;
    this.#carrier = carrier;
    this.#circuitId = circuitId;
  }

  of(end: XgressEnd): this {
    this.#end = end;
    return this;
  }

  get isOpen(): boolean {
    return !this.isCut && !this.edge.isClosed && !this.#fair().isFull;
  }

  wait(waiter: Waiter): void {
    if (!this.isCut && !this.edge.isClosed) this.#fair().wait(waiter);
  }

  payload(frame: FrameView): void {
    this.#write(frame);
  }

  retransmit(frame: FrameView): void {
    this.#write(frame);
  }

  report(): false {
    return false;
  }

  ack(frame: FrameView): void {
    if (this.edge.isClosed || this.#fair().output.pending > MAX_ACK_BACKLOG) return;
    this.#write(frame);
  }

  control(frame: FrameView): void {
    this.#write(frame);
  }

  close(): void {
    this.isGone = true;
    if (this.#end !== undefined) this.#end.gone = true;
    this.edge.remove(this.#id, this.#carrier);
    if (this.isCut || this.edge.isClosed) return;
    const headers = new Headers().setU32(EdgeHeader.ConnId, this.#id);
    const body = Buffer.from(this.#circuitId, "latin1");
    // Behind the last payloads, which would find no circuit any more.
    this.edge.channel.send({ contentType: XgressType.Close, headers, body }, this.#fair().underlay);
  }

  #write(frame: FrameView): void {
    if (this.isCut || this.edge.isClosed) return;
    try {
      writeCircuitFrame(frame, this.#fair().underlay, this.#id);
    } catch (error) {
      // The router takes nothing any more and was just given up: the end comes by the channel's close.
      if (!(error instanceof ChannelClosedError)) throw error;
    }
  }

  #fair(): FairOutput {
    if (this.#output === undefined || this.#output.underlay.isClosed) this.#output = this.edge.outputFor(this.#id);
    return this.#output;
  }
}
