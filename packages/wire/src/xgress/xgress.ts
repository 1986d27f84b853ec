import { EdgeFlag } from "../catalogue/edge.ts";
import { XgressCapability, XgressControl, XgressFlag } from "../catalogue/xgress.ts";
import type { FrameView } from "../frame/frame.ts";
import type { XgressLoad } from "./counters.ts";
import { type ControlMessage, controlFrame, readControl } from "./frames/control-message.ts";
import { PayloadView, readPayload } from "./frames/payload.ts";
import type { Delivery, LocalPort } from "./local-port.ts";
import type { XgressOptions } from "./options.ts";
import type { Side, XgressEnd, XgressFabric, XgressPath } from "./path.ts";
import { PayloadReceiver } from "./receive/payload-receiver.ts";
import { PayloadSender } from "./send/payload-sender.ts";
import type { BodySealer } from "./send/payload-writer.ts";
import type { Scanned, ScanTimer } from "./timers.ts";

const END_FLAGS = XgressFlag.CircuitEnd | XgressFlag.Eof;
const MARK_FLAGS = END_FLAGS | XgressFlag.CircuitStart | XgressFlag.WriteFailed;
const NOTHING = Buffer.alloc(0);

/** The reason with which a port is closed when the other end has ended the circuit in its order: everything it sent was handed out. */
export const CLOSED_BY_OTHER_END = "the other end closed the circuit";

/** The reason when the circuit was taken down under way: what was sent last may be missing. */
export const CLOSED_BY_NETWORK = "the circuit was closed by the network";

export interface XgressParts {
  readonly fabric: XgressFabric;
  readonly circuitId: string;
  /** Given by the controller; unique in the fabric. */
  readonly address: string;
  readonly side: Side;
  readonly port: LocalPort;
  readonly options: XgressOptions;
}

/**
 * One end of a circuit: a local connection on one side, payloads with flow control on the other. The sending and the
 * receiving half know nothing of each other; how the circuit starts and how its two directions end is decided here
 * (docs/protocol/data-path.md, "Xgress"). It registers itself with the fabric when it is made.
 */
export class Xgress implements XgressEnd, Scanned {
  readonly kind = "xgress" as const;
  readonly circuitId: string;
  readonly address: string;
  readonly side: Side;
  gone = false;
  lastReceived = performance.now();
  readonly #port: LocalPort;
  readonly #options: XgressOptions;
  readonly #path: XgressPath;
  readonly #scans: ScanTimer;
  readonly #sender: PayloadSender;
  readonly #receiver: PayloadReceiver;
  readonly #view = new PayloadView();
  readonly #delivery: Delivery = { buffer: NOTHING, start: 0, end: 0, edgeFlags: -1, uuidStart: -1, uuidEnd: -1 };
  readonly #created = performance.now();
  /** Whether the other end understands the EOF flag; undefined until its first payload. */
  #peerKnowsEof: boolean | undefined;
  /** The local side gives no more data. */
  #localEnded = false;
  /** And said so, rather than being gone: what it gave is owed. */
  #isOrderly = false;
  /** Its end mark waits for the other end's capabilities. */
  #endPending = false;
  #isEndMarked = false;
  /** A FIN was sent, or received. */
  #localFin = false;
  #remoteFin = false;
  /** An end mark of the other end was handed out. */
  #remoteEnded = false;
  /** The local side is gone: what arrives is dropped, what was sent is still seen through. */
  #closingReason: string | undefined;
  #closingSince = 0;
  #ended = false;

  constructor(parts: XgressParts) {
    this.circuitId = parts.circuitId;
    this.address = parts.address;
    this.side = parts.side;
    this.#port = parts.port;
    this.#options = parts.options;
    this.#path = parts.fabric.register(this);
    const half = {
      circuitId: parts.circuitId,
      isTerminator: parts.side === "terminator",
      path: this.#path,
      pool: parts.fabric.pool,
      options: parts.options,
      counters: parts.fabric.counters,
      acks: parts.fabric.acks,
    };
    this.#sender = new PayloadSender({ ...half, onRoom: () => this.#port.resume() });
    this.#receiver = new PayloadReceiver({ ...half, handOut: (view) => this.#handOut(view) });
    this.#scans = parts.fabric.scans;
    this.#scans.add(this);
  }

  get carriesDatagrams(): boolean {
    return this.#port.carriesDatagrams === true;
  }

  // From outside ------------------------------------------------------------------------------------------------------

  /** Opens the circuit from the initiating side. */
  start(): void {
    this.#sender.start();
    this.#sender.mark(XgressFlag.CircuitStart, XgressCapability.eof);
  }

  /**
   * Sends one payload with the bytes `start..end` of `buffer`, which are copied. Takes everything, but `false` asks the
   * port to stop reading until its `resume` is called.
   *
   * @param edgeFlags flags of the edge message, -1: none
   * @param uuidStart trace id as offsets into `buffer`, -1: none
   */
  write(buffer: Buffer, start: number, end: number, edgeFlags = -1, uuidStart = -1, uuidEnd = -1): boolean {
    if (this.#ended || this.#localEnded || this.#sender.isStopped) return true;
    if (edgeFlags >= 0 && (edgeFlags & EdgeFlag.Fin) !== 0) this.#localFin = true;
    return this.#sender.data(buffer, start, end, edgeFlags, uuidStart, uuidEnd);
  }

  /** As {@link write}, with a body that `sealer` makes from the bytes. */
  writeSealed(sealer: BodySealer, buffer: Buffer, start: number, end: number): boolean {
    if (this.#ended || this.#localEnded || this.#sender.isStopped) return true;
    return this.#sender.data(buffer, start, end, -1, -1, -1, sealer);
  }

  /** The local side has no more data, but still takes some: half close. */
  endInput(): void {
    if (this.#ended || this.#localEnded) return;
    if (!this.#localFin) this.write(NOTHING, 0, 0, EdgeFlag.Fin);
    this.#localEnded = true;
    this.#isOrderly = true;
    this.#endPending = true;
    this.#sender.drain();
    this.#sendEndMark();
    this.#settle(performance.now());
  }

  /** The local side is gone. What it sent before is still delivered, then the circuit ends. */
  close(reason: string): void {
    if (this.#ended || this.#closingReason !== undefined) return;
    this.#closingReason = reason;
    this.#closingSince = performance.now();
    this.#receiver.dropHeld();
    // A host may say its piece and hang up before the circuit starts: that waits for the start. The other side starts itself.
    if (!this.#sender.isStarted && this.side === "initiator") {
      this.#finish(reason);
      return;
    }
    this.#localEnded = true;
    this.#sender.drain();
    // CircuitEnd comes last, when everything has arrived: routers take the circuit down as soon as they see it. EOF is
    // acknowledged before that, so the other end knows that it has everything, whatever becomes of the circuit then.
    this.#endPending = this.#peerKnowsEof === true && !this.#isEndMarked;
    this.#settle(performance.now());
  }

  /** The local side cannot be written to any more: the other end is told to stop, and the circuit ends. */
  writeFailed(reason: string): void {
    if (this.#ended || this.#closingReason !== undefined) return;
    if (this.#sender.isStarted) this.#sender.mark(XgressFlag.WriteFailed);
    this.close(reason);
  }

  /** Forgets the end and tells no one: the dial it was made for failed. */
  abandon(): void {
    this.#finish("the dial failed", { report: false });
  }

  /** Payloads in order that wait for room outside. */
  get held(): number {
    return this.#receiver.held;
  }

  /** The fabric has forgotten the circuit: nothing leaves any more, but what arrived can still be taken. */
  cut(): void {
    this.#sender.stop();
  }

  /** There is room outside again: hands out what was held, `max` payloads at most. Returns whether more waits. */
  deliverHeld(max = Number.POSITIVE_INFINITY): boolean {
    return !this.#ended && this.#receiver.deliverHeld(this.#view, max);
  }

  sendControl(message: ControlMessage): void {
    this.#path.control(controlFrame(message));
  }

  // From the fabric ---------------------------------------------------------------------------------------------------

  payload(frame: FrameView): void {
    const view = this.#view;
    if (this.#ended || !readPayload(frame, view)) return;
    const fromTerminator = (view.flags & XgressFlag.Terminator) !== 0;
    if (fromTerminator === (this.side === "terminator")) return;
    this.lastReceived = performance.now();
    if ((view.flags & XgressFlag.WriteFailed) !== 0) this.#stopSending();
    this.#receiver.arrived(frame, view);
  }

  ack(frame: FrameView): void {
    if (this.#ended) return;
    const now = performance.now();
    if (this.#sender.acknowledge(frame, now) && this.#localEnded) this.#settle(now);
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

  outputFor(): undefined {
    return undefined;
  }

  unrouted(): void {
    this.#finish(CLOSED_BY_NETWORK, { report: false });
  }

  rerouted(): void {
    if (!this.#ended) this.#sender.pump();
  }

  scan(now: number): void {
    if (this.#ended) return;
    const isWaiting = this.side === "terminator" && !this.#sender.isStarted;
    if (isWaiting && now - this.#created > this.#options.circuitStartTimeoutMs) {
      this.#finish("the other end did not start the circuit in time");
      return;
    }
    this.#sender.scan(now);
    if (this.#localEnded) this.#settle(now);
  }

  load(sum: XgressLoad): void {
    this.#sender.load(sum);
    this.#receiver.load(sum);
  }

  inspect(): Record<string, unknown> {
    return {
      address: this.address,
      originator: this.side === "initiator" ? "Initiator" : "Terminator",
      timeSinceLastLinkRx: `${Math.round(performance.now() - this.lastReceived)}ms`,
      sendBufferDetail: this.#sender.detail(),
      recvBufferDetail: this.#receiver.detail(),
      queuedToSend: this.#sender.queued,
      queuedToDeliver: this.#receiver.held,
    };
  }

  // Start and end -----------------------------------------------------------------------------------------------------

  /** A payload in order. False: no room outside, nothing was done. */
  #handOut(view: PayloadView): boolean {
    const { flags, capabilities, edgeFlags } = view;
    const isMark = (flags & MARK_FLAGS) !== 0 || capabilities >= 0;
    if (this.#closingReason === undefined && (view.size > 0 || edgeFlags >= 0 || !isMark)) {
      const d = this.#delivery;
      d.buffer = view.buffer;
      d.start = view.bodyStart;
      d.end = view.bodyEnd;
      d.edgeFlags = edgeFlags;
      d.uuidStart = view.uuidStart;
      d.uuidEnd = view.uuidEnd;
      if (!this.#port.deliver(d)) return false;
      if (edgeFlags >= 0 && (edgeFlags & EdgeFlag.Fin) !== 0) this.#remoteFin = true;
    }
    if (this.#peerKnowsEof === undefined) this.#learn(flags, capabilities);
    this.#sendEndMark();
    if ((flags & END_FLAGS) !== 0) this.#remoteEnd(flags);
    return true;
  }

  /** What the other end's first payload says about it. */
  #learn(flags: number, capabilities: number): void {
    this.#peerKnowsEof = capabilities >= 0 && (capabilities & XgressCapability.eof) !== 0;
    if ((flags & XgressFlag.CircuitStart) !== 0 && !this.#sender.isStarted) {
      if (this.#peerKnowsEof) this.#sender.markFirst(XgressCapability.eof);
      this.#sender.start();
      if (this.#closingReason !== undefined) {
        this.#endPending = this.#peerKnowsEof;
        this.#settle(performance.now());
      }
    }
  }

  /**
   * The mark of a half close. An end that knows no EOF takes a CircuitEnd for the end of both directions: the FIN is all
   * that it gets until its own direction has ended.
   */
  #sendEndMark(): void {
    if (!this.#endPending || this.#peerKnowsEof === undefined) return;
    if (!this.#peerKnowsEof && !this.#remoteFin && !this.#remoteEnded) return;
    // Routers take the circuit down as soon as they see its end, whatever is still to be sent again.
    if (!this.#peerKnowsEof && !this.#sender.isEmpty) return;
    this.#endPending = false;
    this.#isEndMarked = true;
    this.#sender.mark(this.#peerKnowsEof ? XgressFlag.Eof : XgressFlag.CircuitEnd);
  }

  /**
   * An end mark in its place. CircuitEnd also serves as half close: an end that knows EOF sends it until it has learnt
   * that this end does, so there the first mark, whichever it is, ends one direction only, and the second one all. From
   * an end that knows no EOF it means that when a FIN went before, nothing else has ended yet, and it is the first mark.
   */
  #remoteEnd(flags: number): void {
    const isNew = this.#peerKnowsEof === true || (this.#remoteFin && !this.#localFin && !this.#localEnded);
    const isHalf = isNew && !this.#remoteEnded;
    if ((flags & XgressFlag.CircuitEnd) !== 0 && !isHalf) {
      this.#finish(CLOSED_BY_OTHER_END, { tellPeer: true });
      return;
    }
    this.#remoteEnded = true;
    if (this.#closingReason === undefined) this.#port.endOfData();
    this.#settle(performance.now());
  }

  /** The other end cannot deliver any more. */
  #stopSending(): void {
    this.#sender.stop();
    this.#port.stopSending();
  }

  /** Ends the circuit when both directions are done, or the closing one has waited long enough without progress. */
  #settle(now: number): void {
    if (this.#ended || !this.#localEnded) return;
    this.#sendEndMark();
    const patienceMs = this.#isOrderly ? this.#options.orderlyWaitMs : this.#options.maxCloseWaitMs;
    if (!this.#endPending && this.#sender.isStarted && this.#sender.isDone(now, patienceMs)) {
      if (this.#closingReason !== undefined) this.#finish(this.#closingReason, { tellPeer: true });
      else if (this.#remoteEnded) this.#finish("both ends have finished", { tellPeer: true });
    } else if (
      this.#closingReason !== undefined &&
      now - Math.max(this.#closingSince, this.#sender.lastProgress) > patienceMs
    ) {
      this.#finish(this.#closingReason, { tellPeer: true });
    }
  }

  /** @param o.tellPeer send a last mark; `report`: tell the circuit's owner (default) */
  #finish(reason: string, o: { tellPeer?: boolean; report?: boolean } = {}): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#receiver.stop();
    // Sent once and not kept: the other end either waits for it or is gone.
    if (o.tellPeer === true && this.#sender.isStarted) {
      this.#sender.markOnce(XgressFlag.CircuitEnd);
      // The first mark may be taken for a half close.
      if (!this.#isEndMarked && (this.#localFin || this.#peerKnowsEof === true))
        this.#sender.markOnce(XgressFlag.CircuitEnd);
    }
    this.#scans.delete(this);
    this.#sender.stop();
    this.#path.close(o.report ?? true);
    this.#port.closed(reason);
  }
}
