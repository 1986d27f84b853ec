import { XgressFlag, XgressType } from "../../catalogue/xgress.ts";
import type { FrameView } from "../../frame/frame.ts";
import type { XgressCounters, XgressLoad } from "../counters.ts";
import type { FramePool, KeptFrame } from "../frames/frame-pool.ts";
import { FrameQueue } from "../frames/frame-queue.ts";
import { type PayloadView, readPayload } from "../frames/payload.ts";
import type { FlowOptions } from "../options.ts";
import type { XgressPath } from "../path.ts";
import type { AckScheduler, AckSource } from "../timers.ts";
import { AckBatch, AckTemplate } from "./acknowledgement.ts";
import { Arrival, ReceiveBuffer, type ReceiveBufferDetail } from "./receive-buffer.ts";

/** The receive buffer counts data; payloads with little or none of it take memory all the same, up to so many times as much. */
const FRAMES_PER_DATA = 2;

export interface ReceiverParts {
  readonly circuitId: string;
  readonly isTerminator: boolean;
  readonly path: XgressPath;
  readonly pool: FramePool;
  readonly options: FlowOptions;
  readonly counters: XgressCounters;
  readonly acks: AckScheduler;
  /** Takes a payload in order. `false`: there is no room, it is offered again by `deliverHeld`. */
  readonly handOut: (view: PayloadView) => boolean;
}

/**
 * The receiving half of an xgress: puts payloads in order, holds what finds no room outside, and acknowledges in
 * batches (docs/protocol/data-path.md, "Acknowledgements").
 */
export class PayloadReceiver implements AckSource {
  readonly #path: XgressPath;
  readonly #pool: FramePool;
  readonly #counters: XgressCounters;
  readonly #scheduler: AckScheduler;
  readonly #handOut: (view: PayloadView) => boolean;
  readonly #buffer: ReceiveBuffer<KeptFrame>;
  readonly #held = new FrameQueue();
  readonly #maxHeld: number;
  readonly #fullSize: number;
  readonly #acks = new AckBatch();
  readonly #ackTemplate: AckTemplate;
  readonly #ackFrame: FrameView;
  #acksWaiting = false;
  #isHandingOut = false;
  #stopped = false;

  constructor(parts: ReceiverParts) {
    this.#path = parts.path;
    this.#pool = parts.pool;
    this.#counters = parts.counters;
    this.#scheduler = parts.acks;
    this.#handOut = parts.handOut;
    this.#buffer = new ReceiveBuffer<KeptFrame>({
      ...parts.options,
      // A sender learns how full this end is only by acknowledgements; what it has in flight until then is not dropped.
      rxBufferSize: parts.options.rxBufferSize + parts.options.txPortalMaxSize,
    });
    this.#fullSize = parts.options.txPortalMaxSize;
    this.#maxHeld = FRAMES_PER_DATA * (parts.options.rxBufferSize + parts.options.txPortalMaxSize);
    this.#ackTemplate = new AckTemplate(parts.circuitId, parts.isTerminator ? XgressFlag.Terminator : 0);
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
  }

  /** Payloads in order that wait for room outside. */
  get held(): number {
    return this.#held.count;
  }

  /** Takes a payload that was read into `view` from `frame`. The view is used for those that follow it in order, too. */
  arrived(frame: FrameView, view: PayloadView): void {
    const { sequence, size, rtt } = view;
    if (this.#held.bytes > this.#maxHeld) {
      this.#counters.dropped++;
      return;
    }
    const arrival = this.#buffer.arrive(sequence, size, this.#pool.maxWaiting);
    if (arrival === Arrival.NoRoom) {
      this.#counters.dropped++;
      return;
    }
    const batchFull = this.#acks.add(sequence, rtt, size);
    if (arrival === Arrival.Duplicate) {
      this.#counters.duplicates++;
    } else {
      this.#counters.payloadsIn++;
      this.#counters.bytesIn += size;
      if (arrival === Arrival.Next) this.#next(frame, view);
      else this.#buffer.keep(sequence, this.#pool.take(frame.end - frame.start).copyOf(frame), size);
    }
    // The acknowledgement leaves last: by it the sender may release the very memory that was just read.
    if (batchFull) this.flushAcks();
    else this.#ackSoon();
  }

  /** There is room outside: hands out what was held, `max` payloads at most. Returns whether more waits. */
  deliverHeld(view: PayloadView, max: number): boolean {
    // Handing out may ask for more at once: the loop that is running goes on with it.
    if (this.#isHandingOut) return false;
    this.#isHandingOut = true;
    try {
      return this.#handOutHeld(view, max);
    } finally {
      this.#isHandingOut = false;
    }
  }

  #handOutHeld(view: PayloadView, max: number): boolean {
    for (let count = 0; count < max; count++) {
      const frame = this.#held.head;
      if (frame === undefined || this.#stopped) return false;
      readPayload(frame, view);
      if (!this.#offer(view)) return true;
      // Handing out an end mark may have emptied the queue.
      if (this.#held.head !== frame) return false;
      this.#held.shift();
      this.#giveHeld(frame);
    }
    return this.#held.count > 0;
  }

  flushAcks(): void {
    this.#acksWaiting = false;
    if (!this.#stopped && this.#acks.count > 0) this.#writeAcks();
  }

  /** The outside takes nothing any more: drops what is held, and acknowledges what comes. */
  dropHeld(): void {
    this.#held.clear((frame) => this.#giveHeld(frame));
  }

  /** Sends the last acknowledgements and drops everything. */
  stop(): void {
    this.flushAcks();
    this.#stopped = true;
    this.dropHeld();
    this.#buffer.clearEarly((early) => this.#pool.give(early));
  }

  /** Adds what this half has on its hands. */
  load(sum: XgressLoad): void {
    if (this.#acksWaiting) sum.acksWaiting++;
  }

  detail(): ReceiveBufferDetail {
    return this.#buffer.detail();
  }

  #next(frame: FrameView, view: PayloadView): void {
    this.#inOrder(frame, view);
    while (!this.#stopped) {
      const early = this.#buffer.takeNext();
      if (early === undefined) return;
      if (readPayload(early, view)) this.#inOrder(early, view);
      this.#pool.give(early);
    }
  }

  #inOrder(frame: FrameView, view: PayloadView): void {
    if (this.#held.count === 0 && this.#offer(view)) return;
    const kept = this.#pool.take(frame.end - frame.start).copyOf(frame);
    this.#held.push(kept);
    this.#pool.park(kept.buffer.length);
  }

  #giveHeld(frame: KeptFrame): void {
    this.#pool.park(-frame.buffer.length);
    this.#pool.give(frame);
  }

  #offer(view: PayloadView): boolean {
    const size = view.size;
    if (!this.#handOut(view)) return false;
    if (this.#buffer.release(size, this.#scale) && !this.#stopped) this.#writeAcks();
    return true;
  }

  /** How many times less than its full window this circuit may hold here now. */
  get #scale(): number {
    return Math.max(1, this.#fullSize / this.#pool.shareOfWaiting);
  }

  #ackSoon(): void {
    if (this.#acksWaiting || this.#stopped) return;
    this.#acksWaiting = true;
    this.#scheduler.enter(this);
  }

  #writeAcks(): void {
    const frame = this.#ackFrame;
    this.#counters.acksOut++;
    frame.end = this.#acks.write(this.#ackTemplate, frame.buffer, 0, 0, this.#buffer.report(this.#scale));
    this.#path.ack(frame);
  }
}
