import { type FramePool, FrameQueue, type FrameView, type KeptFrame, type Underlay, writeFrame } from "@sallyport/wire";
import type { Forward, HeldPayloads } from "./circuit.ts";
import type { CountedOutput } from "./counted-output.ts";

/** How much one direction of a circuit may have waiting: twice the largest send window, headers of small payloads included. */
const MAX_HELD_PER_CIRCUIT = 8 * 1024 * 1024;
/** How long a source is stopped before its payloads are dropped instead; what makes circular waiting impossible. */
const MAX_PAUSE_MS = 100;

/** Memory for payloads that wait. */
export interface TransitRoom {
  /** Asks for `bytes` of room for a payload read from `from`. False: drop it. */
  take(bytes: number, from: Underlay | undefined): boolean;
  release(bytes: number): void;
}

/**
 * The memory that waiting transit payloads of all circuits may hold together. When it is used up, the underlays that
 * bring more are paused, but only for a moment: if nothing drained until then, reading goes on and payloads that find
 * no room are dropped (senders retransmit), because two routers that wait for each other would otherwise wait without end
 * (docs/protocol/data-path.md, "Push-back").
 */
export class TransitBudget implements TransitRoom {
  readonly #limit: number;
  readonly #maxPauseMs: number;
  readonly #paused = new Set<Underlay>();
  #bytes = 0;
  #shedding = false;
  #timer: NodeJS.Timeout | undefined;
  /** Payloads dropped for want of room since start. */
  dropped = 0;

  constructor(limit = 64 * 1024 * 1024, maxPauseMs = MAX_PAUSE_MS) {
    this.#limit = limit;
    this.#maxPauseMs = maxPauseMs;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Underlays not read at the moment. */
  get paused(): number {
    return this.#paused.size;
  }

  take(bytes: number, from: Underlay | undefined): boolean {
    if (this.#bytes + bytes > this.#limit) {
      if (this.#shedding) {
        this.dropped++;
        return false;
      }
      if (from !== undefined) this.#pause(from);
    }
    this.#bytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes > this.#limit * 0.75) return;
    this.#shedding = false;
    this.#resume();
  }

  close(): void {
    this.#resume();
  }

  #pause(underlay: Underlay): void {
    if (this.#paused.has(underlay)) return;
    underlay.pause();
    this.#paused.add(underlay);
    this.#timer ??= setTimeout(() => {
      this.#shedding = true;
      this.#resume();
    }, this.#maxPauseMs);
  }

  #resume(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#paused.size === 0) return;
    const underlays = [...this.#paused];
    this.#paused.clear();
    for (const underlay of underlays) underlay.resume();
  }
}

/**
 * What one destination may have of a budget: an SDK that reads nothing, on however many circuits, must not use up what
 * links need. Beyond it its payloads are dropped, and senders to other destinations go on.
 */
export class TransitShare implements TransitRoom {
  readonly #budget: TransitRoom;
  readonly #limit: number;
  #bytes = 0;

  constructor(budget: TransitRoom, limit: number) {
    this.#budget = budget;
    this.#limit = limit;
  }

  take(bytes: number, from: Underlay | undefined): boolean {
    if (this.#bytes + bytes > this.#limit || !this.#budget.take(bytes, from)) return false;
    this.#bytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
    this.#budget.release(bytes);
  }
}

/** Payloads of one direction of a transit circuit that wait for room on a link. */
export class TransitQueue implements HeldPayloads {
  readonly #forward: Forward;
  readonly #pool: FramePool;
  readonly #budget: TransitRoom;
  readonly #write: typeof writeFrame;
  readonly #frames = new FrameQueue();
  #output: CountedOutput | undefined;

  /** @param write copies a frame into the output of a connection */
  constructor(forward: Forward, pool: FramePool, budget: TransitRoom, write: typeof writeFrame = writeFrame) {
    this.#forward = forward;
    this.#pool = pool;
    this.#budget = budget;
    this.#write = write;
  }

  get count(): number {
    return this.#frames.count;
  }

  get bytes(): number {
    return this.#frames.bytes;
  }

  /** Keeps a copy of `frame` until `output` has room. False when it was dropped: this circuit, or all together, hold too much. */
  hold(frame: FrameView, output: CountedOutput, from: Underlay | undefined): boolean {
    const length = frame.end - frame.start;
    if (this.#frames.bytes + length > MAX_HELD_PER_CIRCUIT) {
      return false;
    }
    if (!this.#budget.take(length, from)) return false;
    const kept = this.#pool.take(length).copyOf(frame);
    this.#frames.push(kept);
    // The budget is its bound: it is not missing in the windows of this router's own ends.
    this.#pool.setApart(kept.buffer.length);
    this.waitFor(output);
    return true;
  }

  waitFor(output: CountedOutput): void {
    this.#output = output;
    output.wait(this);
  }

  takeTurn(): boolean {
    const frame = this.#frames.shift();
    if (frame === undefined || this.#output === undefined) return false;
    const length = frame.end - frame.start;
    this.#output.counters.payloadsOut++;
    this.#output.counters.payloadBytesOut += frame.end - frame.bodyStart;
    this.#write(frame, this.#output.underlay);
    this.#giveBack(frame);
    this.#budget.release(length);
    return this.#frames.count > 0;
  }

  outputGone(): void {
    const output = this.#forward.destination?.outputFor(this.#forward);
    if (output === undefined) this.clear();
    else this.waitFor(output);
  }

  clear(): void {
    const bytes = this.#frames.bytes;
    this.#output?.leave(this);
    this.#output = undefined;
    this.#frames.clear((frame) => this.#giveBack(frame));
    this.#budget.release(bytes);
  }

  #giveBack(frame: KeptFrame): void {
    this.#pool.setApart(-frame.buffer.length);
    this.#pool.give(frame);
  }
}
