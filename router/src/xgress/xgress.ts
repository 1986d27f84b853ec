import {
  AckBatch,
  AckTemplate,
  AckView,
  Arrival,
  EdgeFlag,
  type FrameView,
  PayloadView,
  ReceiveBuffer,
  readAck,
  readPayload,
  SendBuffer,
  XgressControl,
  XgressFlag,
  XgressType,
  xgressCapability,
} from "@sallyport/wire";
import type { Forward } from "../forwarder/circuit.ts";
import { type ControlMessage, controlFrame, readControl } from "../forwarder/control-message.ts";
import type { FairOutput, Waiter } from "../forwarder/fair-output.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { FramePool, KeptFrame } from "../forwarder/frame-pool.ts";
import { FrameQueue } from "../forwarder/frame-queue.ts";
import type { LocalEnd, Path, Side } from "../forwarder/local-end.ts";
import { type AckSource, ackScheduler } from "./ack-scheduler.ts";
import type { XgressCounters } from "./counters.ts";
import type { Delivery, LocalPort } from "./local-port.ts";
import type { XgressOptions } from "./options.ts";
import { PayloadWriter } from "./payload-writer.ts";
import { type Scanned, scanTimer } from "./scan-timer.ts";

/** What one circuit may have waiting to be sent before its source is stopped, and where it may go on. */
const INPUT_FULL = 1024 * 1024;
const INPUT_LOW = 256 * 1024;
const END_FLAGS = XgressFlag.CircuitEnd | XgressFlag.Eof;
const MARK_FLAGS = END_FLAGS | XgressFlag.CircuitStart | XgressFlag.WriteFailed;

export interface XgressParts {
  readonly forwarder: Forwarder;
  readonly circuitId: string;
  /** Given by the controller; unique. */
  readonly address: string;
  readonly side: Side;
  readonly port: LocalPort;
  readonly options: XgressOptions;
}

/**
 * One end of a circuit: turns a local connection into payloads with flow control, acknowledgement and retransmission,
 * and back (docs/protocol/data-path.md, "Xgress"). It registers itself with the forwarder when it is made.
 */
export class Xgress implements LocalEnd, Waiter, AckSource, Scanned {
  readonly kind = "xgress" as const;
  readonly circuitId: string;
  readonly address: string;
  readonly side: Side;
  gone = false;
  lastReceived = Date.now();
  readonly #port: LocalPort;
  readonly #options: XgressOptions;
  readonly #pool: FramePool;
  readonly #counters: XgressCounters;
  readonly #path: Path;
  readonly #writer: PayloadWriter;
  readonly #send: SendBuffer<KeptFrame>;
  readonly #receive: ReceiveBuffer<KeptFrame>;
  readonly #acks = new AckBatch();
  readonly #ackTemplate: AckTemplate;
  readonly #ackFrame: FrameView;
  readonly #payloadView = new PayloadView();
  readonly #ackView = new AckView();
  readonly #delivery: Delivery = {
    buffer: Buffer.alloc(0),
    start: 0,
    end: 0,
    edgeFlags: -1,
    uuidStart: -1,
    uuidEnd: -1,
  };
  /** From outside, waiting for the window or for room on the link. */
  readonly #input = new FrameQueue();
  /** In order, waiting for room outside. */
  readonly #output = new FrameQueue();
  readonly #created = Date.now();
  /** Set while nothing may be sent yet. */
  #started = false;
  #pumping = false;
  /** Bytes in flight, and bytes the other end said it holds. */
  #inFlightBytes = 0;
  #peerHeld = 0;
  #inputStopped = false;
  #acksWaiting = false;
  /** Undefined until the other end has said it. */
  #peerKnowsEof: boolean | undefined;
  /** The local side has no more data: its end mark was queued, or waits for the other end's capabilities. */
  #localEnded = false;
  #endPending = false;
  /** A FIN was sent. */
  #localFin = false;
  #remoteFin = false;
  #remoteEnded = false;
  /** The local side is gone: what arrives is dropped; ends when all that was sent is acknowledged. */
  #closingReason: string | undefined;
  #closingSince = 0;
  #ended = false;

  constructor(parts: XgressParts) {
    this.circuitId = parts.circuitId;
    this.address = parts.address;
    this.side = parts.side;
    this.#port = parts.port;
    this.#options = parts.options;
    this.#pool = parts.forwarder.pool;
    this.#counters = parts.forwarder.counters;
    const isTerminator = parts.side === "terminator";
    this.#writer = new PayloadWriter(parts.circuitId, isTerminator, this.#pool);
    this.#send = new SendBuffer<KeptFrame>(parts.options, (frame) => this.#sent(frame));
    this.#receive = new ReceiveBuffer<KeptFrame>({
      ...parts.options,
      // A sender learns how full this end is only by acknowledgements; what it has in flight until then is not dropped.
      rxBufferSize: parts.options.rxBufferSize + parts.options.txPortalMaxSize,
    });
    this.#ackTemplate = new AckTemplate(parts.circuitId, isTerminator ? XgressFlag.Terminator : 0);
    const headersEnd = this.#ackTemplate.byteLength(0);
    this.#ackFrame = {
      buffer: Buffer.alloc(this.#ackTemplate.byteLength(this.#acks.sequences.length)),
      start: 0,
      contentType: XgressType.Acknowledgement,
      sequence: 0,
      headersStart: 20,
      headersEnd,
      bodyStart: headersEnd,
      end: headersEnd,
      carriesHeartbeat: false,
    };
    this.#path = parts.forwarder.register(this);
    scanTimer.add(this);
  }

  // From outside ------------------------------------------------------------------------------------------------------

  /** Opens the circuit from the initiating side. */
  start(): void {
    this.#started = true;
    this.#queue(this.#writer.mark(XgressFlag.CircuitStart, xgressCapability.eof));
  }

  /**
   * Sends one payload with the bytes `start..end` of `buffer`, which are copied. Takes everything, but `false` asks the
   * port to stop reading until its `resume` is called.
   *
   * @param edgeFlags flags of the edge message, -1: none
   * @param uuidStart trace id as offsets into `buffer`, -1: none
   */
  write(buffer: Buffer, start: number, end: number, edgeFlags = -1, uuidStart = -1, uuidEnd = -1): boolean {
    if (this.#ended || this.#localEnded || this.#send.isClosed) return true;
    if (edgeFlags >= 0 && (edgeFlags & EdgeFlag.Fin) !== 0) this.#localFin = true;
    this.#queue(this.#writer.data(buffer, start, end, edgeFlags, uuidStart, uuidEnd));
    if (this.#input.bytes < INPUT_FULL) return true;
    this.#inputStopped = true;
    return false;
  }

  /** The local side has no more data, but still takes some: half close. */
  endInput(): void {
    if (this.#ended || this.#localEnded) return;
    if (!this.#localFin) this.write(Buffer.alloc(0), 0, 0, EdgeFlag.Fin);
    this.#localEnded = true;
    this.#endPending = true;
    this.#queueEndMark();
  }

  /** The local side is gone. What it sent before is still delivered, then the circuit ends. */
  close(reason: string): void {
    if (this.#ended || this.#closingReason !== undefined) return;
    this.#closingReason = reason;
    this.#closingSince = Date.now();
    this.#dropOutput();
    if (!this.#started) {
      this.#finish(reason, false);
      return;
    }
    this.#localEnded = true;
    this.#endPending = false;
    this.#queue(this.#writer.mark(XgressFlag.CircuitEnd));
    // A second mark tells a full close from the half close of a peer that knows no other end mark.
    this.#queue(this.#writer.mark(XgressFlag.CircuitEnd));
    this.#settle(Date.now());
  }

  /** The local side cannot be written to any more: the other end is told to stop, and the circuit ends. */
  writeFailed(reason: string): void {
    if (this.#ended || this.#closingReason !== undefined) return;
    if (this.#started) this.#queue(this.#writer.mark(XgressFlag.WriteFailed));
    this.close(reason);
  }

  /** Forgets the end without a word to anybody: the dial it was made for failed. */
  abandon(): void {
    this.#finish("the dial failed", false, false);
  }

  /** There is room outside again: hands out what was held, `max` payloads at most. Returns whether more waits. */
  deliverHeld(max = Number.POSITIVE_INFINITY): boolean {
    for (let count = 0; count < max; count++) {
      const frame = this.#output.head;
      if (frame === undefined || this.#ended) return false;
      readPayload(frame, this.#payloadView);
      if (!this.#handOut(this.#payloadView)) return true;
      // The payload may have ended the circuit, and with it given back every frame that was held.
      if (this.#ended) return false;
      this.#output.shift();
      this.#pool.give(frame);
    }
    return this.#output.count > 0;
  }

  sendControl(message: ControlMessage): void {
    this.#path.control(controlFrame(message));
  }

  // From the fabric ---------------------------------------------------------------------------------------------------

  payload(frame: FrameView, _forward?: Forward, _flags?: number): void {
    const view = this.#payloadView;
    if (this.#ended || !readPayload(frame, view)) return;
    const fromTerminator = (view.flags & XgressFlag.Terminator) !== 0;
    if (fromTerminator === (this.side === "terminator")) return;
    this.lastReceived = Date.now();
    if ((view.flags & XgressFlag.WriteFailed) !== 0) this.#stopSending();
    const sequence = view.sequence;
    const size = view.size;
    const arrival = this.#receive.arrive(sequence, size);
    if (arrival === Arrival.NoRoom) {
      this.#counters.dropped++;
      return;
    }
    if (arrival === Arrival.Duplicate) this.#counters.duplicates++;
    else {
      this.#counters.payloadsIn++;
      this.#counters.bytesIn += size;
    }
    const full = this.#acks.add(sequence, view.rtt, size);
    if (arrival === Arrival.Next) {
      this.#inOrder(frame, view);
      for (let early = this.#receive.takeNext(); early !== undefined; early = this.#receive.takeNext()) {
        if (readPayload(early, view)) this.#inOrder(early, view);
        this.#pool.give(early);
        if (this.#ended) return;
      }
    } else if (arrival === Arrival.Early) {
      this.#receive.keep(sequence, this.#pool.take(frame.end - frame.start).copyOf(frame), size);
    }
    if (full) this.flushAcks();
    else this.#ackSoon();
  }

  ack(frame: FrameView): void {
    const view = this.#ackView;
    if (this.#ended || !readAck(frame, view)) return;
    const now = Date.now();
    this.#counters.acksIn++;
    this.#send.acknowledge(view, now);
    this.#peerHeld = view.receiveBufferSize;
    this.#pump();
    this.#settle(now);
  }

  control(frame: FrameView): void {
    const message = readControl(frame);
    if (message === undefined || this.#ended) return;
    if (message.kind === XgressControl.TraceRoute) {
      const answer = this.#port.trace(message);
      if (answer !== undefined) this.sendControl(answer);
    } else if (message.kind === XgressControl.TraceRouteResponse) {
      this.#port.traceAnswered(message);
    }
  }

  outputFor(): FairOutput | undefined {
    return undefined;
  }

  unrouted(): void {
    this.#finish("the circuit was closed by the network", false, false);
  }

  rerouted(): void {
    this.#pump();
  }

  // Waiter, AckSource, Scanned ----------------------------------------------------------------------------------------

  takeTurn(): boolean {
    if (this.#ended || this.#input.count === 0 || !this.#canSend) return false;
    this.#transmit(this.#input.shift() as KeptFrame);
    this.#inputMoved();
    return this.#input.count > 0 && this.#canSend;
  }

  outputGone(): void {
    this.#pump();
  }

  flushAcks(): void {
    this.#acksWaiting = false;
    if (!this.#ended && this.#acks.count > 0) this.#writeAcks();
  }

  scan(now: number): void {
    if (this.#ended) return;
    if (!this.#started && this.side === "terminator" && now - this.#created > this.#options.circuitStartTimeoutMs) {
      this.#finish("the other end did not start the circuit in time", true);
      return;
    }
    if (this.#send.inFlight > 0)
      this.#send.retransmit(now, (frame, sequence) => this.#retransmit(frame, sequence, now));
    if (this.#input.count > 0) this.#pump();
    if (this.#localEnded) this.#settle(now);
  }

  inspect(): Record<string, unknown> {
    return {
      address: this.address,
      originator: this.side === "initiator" ? "Initiator" : "Terminator",
      timeSinceLastLinkRx: `${Date.now() - this.lastReceived}ms`,
      sendBufferDetail: this.#send.detail(),
      recvBufferDetail: this.#receive.detail(),
      queuedToSend: this.#input.count,
      queuedToDeliver: this.#output.count,
    };
  }

  // Sending -----------------------------------------------------------------------------------------------------------

  /**
   * Whether the window takes another payload. Stricter than the window alone: what is in flight must still find room
   * beside what the other end holds, because receivers drop what is too much and it costs a retransmission.
   */
  get #canSend(): boolean {
    if (!this.#send.canAdd) return false;
    return this.#send.inFlight === 0 || this.#inFlightBytes + this.#peerHeld <= this.#options.txPortalMaxSize;
  }

  /** A payload is no longer needed: acknowledged, or given up. */
  #sent(frame: KeptFrame): void {
    this.#inFlightBytes -= frame.end - frame.bodyStart;
    this.#pool.give(frame);
  }

  #queue(frame: KeptFrame): void {
    if (this.#input.count === 0 && this.#started && !this.#pumping && this.#canSend && this.#path.isOpen) {
      this.#transmit(frame);
      return;
    }
    this.#input.push(frame);
    this.#pump();
  }

  #pump(): void {
    if (this.#pumping || !this.#started || this.#ended) return;
    this.#pumping = true;
    while (this.#input.count > 0 && this.#canSend) {
      if (!this.#path.isOpen) {
        this.#path.wait(this);
        break;
      }
      this.#transmit(this.#input.shift() as KeptFrame);
    }
    this.#pumping = false;
    this.#inputMoved();
  }

  #inputMoved(): void {
    if (!this.#inputStopped || this.#input.bytes > INPUT_LOW) return;
    this.#inputStopped = false;
    this.#port.resume();
  }

  #transmit(frame: KeptFrame): void {
    const now = Date.now();
    const flags = frame.flags;
    const size = frame.end - frame.bodyStart;
    this.#inFlightBytes += size;
    this.#counters.payloadsOut++;
    this.#counters.bytesOut += size;
    const sequence = this.#send.add(frame, size, now, (flags & END_FLAGS) !== 0);
    this.#writer.stamp(frame, sequence, now);
    this.#path.payload(frame, flags);
  }

  #retransmit(frame: KeptFrame, sequence: number, now: number): boolean {
    if (!this.#path.isOpen) return this.#path.report();
    this.#counters.retransmissions++;
    this.#writer.stamp(frame, sequence, now, XgressFlag.Retransmit);
    this.#path.retransmit(frame, frame.flags);
    return true;
  }

  #queueEndMark(): void {
    if (!this.#endPending || this.#peerKnowsEof === undefined) return;
    this.#endPending = false;
    this.#queue(this.#writer.mark(this.#peerKnowsEof ? XgressFlag.Eof : XgressFlag.CircuitEnd));
  }

  /** The other end cannot deliver any more. */
  #stopSending(): void {
    this.#input.clear((frame) => this.#pool.give(frame));
    this.#send.close();
    this.#port.stopSending();
  }

  // Receiving ---------------------------------------------------------------------------------------------------------

  /** A payload whose turn it is: handed out, or held behind those that wait for room. */
  #inOrder(frame: FrameView, view: PayloadView): void {
    if (this.#output.count === 0 && this.#handOut(view)) return;
    this.#output.push(this.#pool.take(frame.end - frame.start).copyOf(frame));
  }

  /** False: no room outside, nothing was done. */
  #handOut(view: PayloadView): boolean {
    const { flags, size } = view;
    const isMark = (flags & MARK_FLAGS) !== 0 || view.capabilities >= 0;
    if (this.#closingReason === undefined && (size > 0 || view.edgeFlags >= 0 || !isMark)) {
      const d = this.#delivery;
      d.buffer = view.buffer;
      d.start = view.bodyStart;
      d.end = view.bodyEnd;
      d.edgeFlags = view.edgeFlags;
      d.uuidStart = view.uuidStart;
      d.uuidEnd = view.uuidEnd;
      if (!this.#port.deliver(d)) return false;
      if (view.edgeFlags >= 0 && (view.edgeFlags & EdgeFlag.Fin) !== 0) this.#remoteFin = true;
    }
    const sequence = view.sequence;
    const capabilities = view.capabilities;
    if (this.#receive.release(size)) this.#writeAcks();
    if (this.#peerKnowsEof === undefined) this.#learn(flags, capabilities, sequence);
    if ((flags & END_FLAGS) !== 0) this.#remoteEnd(flags);
    return true;
  }

  /** What the other end's first payload says about it. */
  #learn(flags: number, capabilities: number, _sequence: number): void {
    this.#peerKnowsEof = capabilities >= 0 && (capabilities & xgressCapability.eof) !== 0;
    if ((flags & XgressFlag.CircuitStart) !== 0 && !this.#started) {
      this.#started = true;
      if (this.#peerKnowsEof) this.#transmit(this.#writer.mark(0, xgressCapability.eof));
      this.#pump();
    }
    this.#queueEndMark();
  }

  #remoteEnd(flags: number): void {
    const isFull =
      (flags & XgressFlag.CircuitEnd) !== 0 &&
      (this.#remoteEnded || !this.#remoteFin || this.#localFin || this.#localEnded);
    if (isFull) {
      this.#finish("the other end closed the circuit", true);
      return;
    }
    this.#remoteEnded = true;
    if (this.#closingReason === undefined) this.#port.endOfData();
    this.#settle(Date.now());
  }

  // Acknowledgements --------------------------------------------------------------------------------------------------

  #ackSoon(): void {
    if (this.#acksWaiting) return;
    this.#acksWaiting = true;
    ackScheduler.enter(this);
  }

  #writeAcks(): void {
    const frame = this.#ackFrame;
    this.#counters.acksOut++;
    frame.end = this.#acks.write(this.#ackTemplate, frame.buffer, 0, 0, this.#receive.report());
    this.#path.ack(frame);
  }

  // The end -----------------------------------------------------------------------------------------------------------

  /** Ends the circuit when both directions are done. */
  #settle(now: number): void {
    if (this.#ended || !this.#localEnded || this.#input.count > 0 || this.#endPending) {
      if (this.#closingReason !== undefined && now - this.#closingSince > this.#options.maxCloseWaitMs) {
        this.#finish(this.#closingReason, false);
      }
      return;
    }
    this.#send.closeWhenEmpty(now);
    if (!this.#send.shouldClose(now)) return;
    if (this.#closingReason !== undefined) this.#finish(this.#closingReason, false);
    else if (this.#remoteEnded) this.#finish("both ends have finished", true);
  }

  #dropOutput(): void {
    this.#output.clear((frame) => this.#pool.give(frame));
  }

  #finish(reason: string, tellPeer: boolean, report = true): void {
    if (this.#ended) return;
    if (this.#acks.count > 0) this.#writeAcks();
    if (tellPeer && this.#started) this.#sendLastMark();
    this.#ended = true;
    scanTimer.delete(this);
    this.#input.clear((frame) => this.#pool.give(frame));
    this.#dropOutput();
    this.#send.close();
    this.#path.close(report);
    this.#port.closed(reason);
  }

  /** Sent once, never again: the other end either waits for it or is gone. */
  #sendLastMark(): void {
    const frame = this.#writer.mark(XgressFlag.CircuitEnd);
    this.#writer.stamp(frame, this.#send.skip(), Date.now());
    this.#path.payload(frame, frame.flags);
    this.#pool.give(frame);
  }
}
