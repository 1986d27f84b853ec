import { XgressFlag } from "../../catalogue/xgress.ts";
import type { FrameView } from "../../frame/frame.ts";
import type { Waiter } from "../../socket/fair-output.ts";
import type { XgressCounters, XgressLoad } from "../counters.ts";
import { type FramePool, type KeptFrame, Standstill } from "../frames/frame-pool.ts";
import { FrameQueue } from "../frames/frame-queue.ts";
import type { FlowOptions } from "../options.ts";
import type { XgressPath } from "../path.ts";
import { AckView, readAck } from "../receive/acknowledgement.ts";
import { type BodySealer, PayloadWriter } from "./payload-writer.ts";
import { MAX_PATIENCE_MS, SendBuffer, type SendBufferDetail } from "./send-buffer.ts";

/** What one circuit may have waiting to be sent before its source is stopped, and where it may go on. */
const INPUT_FULL = 1024 * 1024;
const INPUT_LOW = INPUT_FULL / 4;
const END_FLAGS = XgressFlag.CircuitEnd | XgressFlag.Eof;

/** What the first payload that waits is waiting for. */
const Blocked = { No: 0, ByWindow: 1, ByPeer: 2 } as const;

export interface SenderParts {
  readonly circuitId: string;
  readonly isTerminator: boolean;
  readonly path: XgressPath;
  readonly pool: FramePool;
  readonly options: FlowOptions;
  readonly counters: XgressCounters;
  /** There is room again after `data` answered `false`. */
  readonly onRoom: () => void;
}

/**
 * The sending half of an xgress: payloads wait for the window and for room on the link, leave in order, and are kept
 * until they are acknowledged (docs/protocol/data-path.md, "Xgress").
 */
export class PayloadSender implements Waiter {
  readonly #path: XgressPath;
  readonly #pool: FramePool;
  readonly #options: FlowOptions;
  readonly #counters: XgressCounters;
  readonly #onRoom: () => void;
  readonly #writer: PayloadWriter;
  readonly #buffer: SendBuffer<KeptFrame>;
  readonly #ackView = new AckView();
  readonly #input = new FrameQueue();
  #started = false;
  #pumping = false;
  #inputStopped = false;
  /** Retransmissions found no room and have joined the ring: where others always wait, they would never find any. */
  #repeatsWait = false;
  #stoppedAt = 0;
  #blocked: number = Blocked.No;
  /** Bytes in flight, and bytes the other end said it holds. */
  #inFlightBytes = 0;
  #peerHeld = 0;
  /** Memory that what is in flight lies in. */
  #inFlightMemory = 0;
  readonly #standstill: Standstill;
  /** Nothing more will be given. */
  #isDraining = false;
  /** When a full other end is sent a payload all the same, and how long after that the next one; 0: not set. */
  #probeAt = 0;
  #probeMs = 0;
  /** It is time for that payload: it leaves as soon as there is room. */
  #isProbing = false;

  constructor(parts: SenderParts) {
    this.#path = parts.path;
    this.#pool = parts.pool;
    this.#options = parts.options;
    this.#counters = parts.counters;
    this.#onRoom = parts.onRoom;
    this.#standstill = new Standstill(parts.pool);
    this.#writer = new PayloadWriter(parts.circuitId, parts.isTerminator, parts.pool);
    this.#buffer = new SendBuffer<KeptFrame>(parts.options, (frame) => this.#released(frame));
  }

  /** Nothing leaves before this. */
  start(): void {
    this.#started = true;
    this.pump();
  }

  get isStarted(): boolean {
    return this.#started;
  }

  /** The other end takes nothing any more. */
  get isStopped(): boolean {
    return this.#buffer.isClosed;
  }

  get queued(): number {
    return this.#input.count;
  }

  /** Sends a payload with a body, see `PayloadWriter.data`. `false` asks the source to stop until `onRoom`. */
  data(
    buffer: Buffer,
    start: number,
    end: number,
    edgeFlags: number,
    uuidStart: number,
    uuidEnd: number,
    sealer?: BodySealer,
  ): boolean {
    this.#queue(this.#writer.data(buffer, start, end, edgeFlags, uuidStart, uuidEnd, sealer));
    if (this.#input.bytes < Math.min(INPUT_FULL, this.#pool.shareOfWaiting)) return true;
    this.#inputStopped = true;
    this.#stoppedAt = performance.now();
    return false;
  }

  /** Nothing more will be given: what waits leaves one by one even to a full end, which then has the circuit's end, too. */
  drain(): void {
    this.#isDraining = true;
    this.pump();
  }

  /** Sends a payload without a body behind everything given before. */
  mark(flags: number, capabilities = -1): void {
    this.#queue(this.#writer.mark(flags, capabilities));
  }

  /** Sends a payload without a body before everything that waits; for the first one of a terminating end. */
  markFirst(capabilities: number): void {
    const frame = this.#writer.mark(0, capabilities);
    if (this.#buffer.isClosed) this.#transmitOnce(frame);
    else this.#transmit(frame);
  }

  /** Sends a payload without a body now, once, and never again. */
  markOnce(flags: number): void {
    this.#transmitOnce(this.#writer.mark(flags));
  }

  /** Takes an acknowledgement. False: it was malformed. */
  acknowledge(frame: FrameView, now: number): boolean {
    const view = this.#ackView;
    if (!readAck(frame, view)) return false;
    this.#counters.acksIn++;
    const duplicates = this.#buffer.totals.duplicateAcks;
    this.#buffer.acknowledge(view, now);
    this.#counters.acksDuplicate += this.#buffer.totals.duplicateAcks - duplicates;
    this.#peerHeld = view.receiveBufferSize;
    if (!this.#buffer.blockedByPeer) {
      this.#probeAt = 0;
      this.#isProbing = false;
      this.#standstill.moved(now);
    }
    this.pump();
    return true;
  }

  /** Sends what may leave now. */
  pump(): void {
    if (this.#pumping || !this.#started) return;
    this.#pumping = true;
    while (this.#input.count > 0 && this.#canSend) {
      if (!this.#path.isOpen) {
        this.#path.wait(this);
        break;
      }
      this.#transmit(this.#input.shift() as KeptFrame);
    }
    this.#pumping = false;
    this.#noteBlocked();
    this.#inputMoved();
  }

  /** Looks for payloads to send again, and whether those that wait may leave. */
  scan(now: number): void {
    if (this.#buffer.inFlight > 0) {
      this.#buffer.retransmit(now, (frame, sequence) => this.#retransmit(frame, sequence, now));
    }
    if (this.#input.count > 0) {
      this.#probe(now);
      this.pump();
    }
    this.#standstill.look(now, this.#input.memory + this.#inFlightMemory);
  }

  /** Everything was sent and acknowledged. */
  get isEmpty(): boolean {
    return this.#input.count === 0 && this.#buffer.inFlight === 0;
  }

  /**
   * Whether everything was sent and acknowledged, or nothing was for `patienceMs`. Call it when nothing more will be
   * given.
   */
  isDone(now: number, patienceMs: number): boolean {
    if (this.#input.count > 0) return false;
    this.#buffer.closeWhenEmpty(now);
    return this.#buffer.shouldClose(now, patienceMs);
  }

  /** When something was acknowledged the last time. */
  get lastProgress(): number {
    return this.#buffer.lastProgress;
  }

  /** Drops what waits and what is in flight. */
  stop(): void {
    this.#standstill.moved(performance.now());
    this.#input.clear((frame) => this.#pool.give(frame));
    this.#buffer.close();
  }

  detail(): SendBufferDetail {
    return this.#buffer.detail();
  }

  /** Adds what this half has on its hands. */
  load(sum: XgressLoad): void {
    sum.unackedPayloads += this.#buffer.inFlight;
    sum.unackedBytes += this.#inFlightBytes;
    if (this.#blocked === Blocked.ByWindow) sum.blockedByWindow++;
    if (this.#blocked === Blocked.ByPeer) sum.blockedByPeer++;
  }

  takeTurn(): boolean {
    if (this.#repeatsWait && this.#repeatOne()) return true;
    if (this.#input.count === 0 || !this.#canSend) return false;
    if (!this.#path.isOpen) {
      // Rerouted since it joined the ring: its room is elsewhere now.
      this.#path.wait(this);
      return false;
    }
    this.#transmit(this.#input.shift() as KeptFrame);
    this.#inputMoved();
    return this.#input.count > 0 && this.#canSend;
  }

  outputGone(): void {
    this.#repeatsWait = false;
    this.pump();
  }

  /**
   * Whether the window takes another payload. Stricter than the window alone: what is in flight must still find room
   * beside what the other end holds, because receivers drop what is too much and that costs a retransmission; and it
   * takes memory here, of which each circuit has its share. Nor does one payload always pass to an end that is full: it
   * would say so again in no time, and get the next one.
   */
  get #canSend(): boolean {
    if (!this.#buffer.canAdd) return false;
    if (this.#buffer.inFlight === 0) return this.#isDraining || this.#isProbing || !this.#buffer.blockedByPeer;
    const inFlight = this.#inFlightBytes;
    return inFlight + this.#peerHeld <= this.#options.txPortalMaxSize && inFlight <= this.#pool.share;
  }

  /** Lets a payload pass to an end that is full, now and then: its word that it has room again may have been lost. */
  #probe(now: number): void {
    if (!this.#started || !this.#buffer.blockedByPeer || this.#buffer.inFlight > 0) return;
    if (this.#probeAt === 0) {
      this.#probeMs = this.#buffer.retransmitAfterMs;
      this.#probeAt = now + this.#probeMs;
    }
    if (now < this.#probeAt) return;
    this.#probeMs = Math.min(2 * this.#probeMs, MAX_PATIENCE_MS);
    this.#probeAt = now + this.#probeMs;
    this.#isProbing = true;
  }

  #queue(frame: KeptFrame): void {
    // After the end nothing is acknowledged or sent again; the last marks still leave.
    if (this.#buffer.isClosed) {
      this.#transmitOnce(frame);
      return;
    }
    if (this.#input.count === 0 && this.#started && !this.#pumping && this.#canSend && this.#path.isOpen) {
      this.#transmit(frame);
      return;
    }
    this.#input.push(frame);
    this.pump();
  }

  #transmitOnce(frame: KeptFrame): void {
    this.#writer.stamp(frame, this.#buffer.skip(), performance.now());
    this.#path.payload(frame, frame.flags);
    this.#pool.give(frame);
  }

  /** Counts when what waits begins to wait for something else. */
  #noteBlocked(): void {
    let blocked: number = Blocked.No;
    if (this.#input.count > 0 && !this.#canSend) {
      blocked = this.#buffer.blockedByWindow ? Blocked.ByWindow : Blocked.ByPeer;
    }
    if (blocked === this.#blocked) return;
    this.#blocked = blocked;
    if (blocked === Blocked.ByWindow) this.#counters.blockedByWindow++;
    if (blocked === Blocked.ByPeer) this.#counters.blockedByPeer++;
  }

  #transmit(frame: KeptFrame): void {
    this.#isProbing = false;
    const now = performance.now();
    const flags = frame.flags;
    const size = frame.end - frame.bodyStart;
    this.#inFlightBytes += size;
    this.#inFlightMemory += frame.buffer.length;
    this.#counters.payloadsOut++;
    this.#counters.bytesOut += size;
    const sequence = this.#buffer.add(frame, size, now, (flags & END_FLAGS) !== 0);
    this.#writer.stamp(frame, sequence, now);
    this.#path.payload(frame, flags);
  }

  /** Sends one payload again in its turn. False: none is due any more. */
  #repeatOne(): boolean {
    const now = performance.now();
    let sent = false;
    const send = (frame: KeptFrame, sequence: number): boolean => {
      if (sent) return false;
      sent = true;
      return this.#retransmit(frame, sequence, now);
    };
    this.#repeatsWait = this.#buffer.retransmit(now, send, true) > 0;
    return this.#repeatsWait;
  }

  #retransmit(frame: KeptFrame, sequence: number, now: number): boolean {
    if (!this.#path.isOpen) {
      this.#counters.retransmissionsFailed++;
      this.#repeatsWait = true;
      this.#path.wait(this);
      return this.#path.report();
    }
    this.#counters.retransmissions++;
    this.#writer.stamp(frame, sequence, now, XgressFlag.Retransmit);
    this.#path.retransmit(frame, frame.flags);
    return true;
  }

  #released(frame: KeptFrame): void {
    this.#inFlightBytes -= frame.end - frame.bodyStart;
    this.#inFlightMemory -= frame.buffer.length;
    this.#pool.give(frame);
  }

  #inputMoved(): void {
    if (!this.#inputStopped || this.#input.bytes > Math.min(INPUT_LOW, this.#pool.shareOfWaiting / 4)) return;
    this.#inputStopped = false;
    this.#counters.sourceStops++;
    this.#counters.sourceStoppedMs += performance.now() - this.#stoppedAt;
    this.#onRoom();
  }
}
