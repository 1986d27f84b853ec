import type { FrameView } from "../../frame/frame.ts";

/** Sizes a frame's memory may have: small frames, 1 KiB, 4 KiB, the usual payload sizes with their headers, 64 KiB. */
const SIZES = [256, 1280, 4352, 10752, 17152, 33536, 66304] as const;

/** What one circuit may always hold, however many others there are; and when there are far too many. */
const LEAST_SHARE = 64 * 1024;
const CROWDED_SHARE = 16 * 1024;
/** Where more memory for what waits ends, and where any does, in budgets. */
const CROWDED = 1.5;
const EXHAUSTED = 2.5;

/**
 * A frame with memory of its own: sent and not yet acknowledged, waiting for room, or received out of order. Where its
 * parts lie in `buffer` is up to its owner, who took it from the pool.
 */
export class KeptFrame implements FrameView {
  readonly buffer: Buffer;
  start = 0;
  contentType = 0;
  sequence = 0;
  headersStart = 0;
  headersEnd = 0;
  bodyStart = 0;
  end = 0;
  readonly carriesHeartbeat = false;
  /** Payload flags, for frames made here. */
  flags = 0;
  /** It lies in the pool: a former owner must not touch it. */
  isFree = false;
  /** Which of the pool's sizes it has; -1: none. */
  readonly sizeClass: number;

  constructor(size: number, sizeClass = -1) {
    this.sizeClass = sizeClass;
    this.buffer = Buffer.allocUnsafeSlow(size);
  }

  /** Makes this a copy of `frame`, whose length fits. */
  copyOf(frame: FrameView): this {
    const start = frame.start;
    frame.buffer.copy(this.buffer, 0, start, frame.end);
    this.start = 0;
    this.contentType = frame.contentType;
    this.sequence = frame.sequence;
    this.headersStart = frame.headersStart - start;
    this.headersEnd = frame.headersEnd - start;
    this.bodyStart = frame.bodyStart - start;
    this.end = frame.end - start;
    return this;
  }
}

/** What frames of one size take together. */
function bytesOf(frames: readonly KeptFrame[]): number {
  return frames.length * (frames[0]?.buffer.length ?? 0);
}

/** How much memory for frames a program uses. */
export interface FramePoolLimits {
  /**
   * Bytes that all frames in use should take together. No circuit gets more than what is left of it, so that a single
   * one has its whole window, and many share. Half of it is for what moves, however much waits for readers; at most two
   * and a half times as much is in use, and a little for each circuit (docs/protocol/data-path.md, "Memory").
   */
  readonly budget: number;
  /** Unused memory that is kept for reuse; what is given back beyond it goes to the collector. */
  readonly maxFree: number;
}

export const framePoolDefaults: FramePoolLimits = { budget: 24 * 1024 * 1024, maxFree: 24 * 1024 * 1024 };

/**
 * Memory for frames that must be kept. Frames go back by {@link FramePool.give} and are handed out again last in, first
 * out, so a steady stream of payloads allocates nothing and touches memory that is still in the cache
 * (docs/protocol/data-path.md, "Memory").
 */
export class FramePool {
  readonly #free: KeptFrame[][] = SIZES.map(() => []);
  readonly #limits: FramePoolLimits;
  #lentBytes = 0;
  #freeBytes = 0;
  #givenTwice = 0;
  #parkedBytes = 0;
  #apartBytes = 0;

  constructor(limits: Partial<FramePoolLimits> = {}) {
    this.#limits = { ...framePoolDefaults, ...limits };
  }

  /** Bytes of frames that were taken and not yet given back. */
  get lentBytes(): number {
    return this.#lentBytes;
  }

  /** Bytes lying ready for reuse. */
  get freeBytes(): number {
    return this.#freeBytes;
  }

  /** Bytes that wait for a reader outside, see {@link park}. */
  get parkedBytes(): number {
    return this.#parkedBytes;
  }

  /** Bytes that are no part of the shares, see {@link setApart}. */
  get apartBytes(): number {
    return this.#apartBytes;
  }

  /** How many bytes one circuit may hold now: what is left of the budget, and a little in any case. */
  get share(): number {
    const { budget } = this.#limits;
    const used = this.#lentBytes - this.#apartBytes;
    const left = budget - used;
    if (left >= budget / 2) return Math.max(left, LEAST_SHARE);
    const ofMoving = Math.min(budget / 2 + this.#parkedBytes, EXHAUSTED * budget) - used;
    return Math.max(left, ofMoving, this.#leastShare);
  }

  /**
   * How many bytes one circuit may have waiting at one of its ends: all of them together get half of the budget, because
   * a reader that stops gives nothing back.
   */
  get shareOfWaiting(): number {
    return Math.max(Math.min(this.share, this.#limits.budget / 2 - this.#parkedBytes), this.#leastShare);
  }

  /**
   * How many bytes of one circuit may wait for its reader, whatever its sender was told: beyond it payloads are refused.
   * No bound as long as there is memory.
   */
  get maxWaiting(): number {
    return this.#isCrowded ? 2 * LEAST_SHARE : Number.POSITIVE_INFINITY;
  }

  /**
   * Tells that frames of so many bytes, which were taken, do not move: they wait for a reader, or are those of a sender at a
   * standstill; negative: no longer.
   */
  park(bytes: number): void {
    this.#parkedBytes += bytes;
  }

  /** Tells that frames of so many bytes, which were taken, have a bound of their own, apart from all shares; negative: no longer. */
  setApart(bytes: number): void {
    this.#apartBytes += bytes;
  }

  /** How often a frame was given back that lay here already: each is a fault in who owned it, and tests expect none. */
  get givenTwice(): number {
    return this.#givenTwice;
  }

  /**
   * A frame of at least `size` bytes with undefined content. Frames beyond 64 KiB are allocated and never reused. Every
   * frame must be given back: what is lost is missing in the share of all circuits.
   */
  take(size: number): KeptFrame {
    const frame = this.#take(size);
    this.#lentBytes += frame.buffer.length;
    return frame;
  }

  /** Returns a frame got from {@link take}; the caller must not touch it afterwards. */
  give(frame: KeptFrame): void {
    if (frame.isFree) {
      // Taken in a second time, two circuits would get the same memory.
      this.#givenTwice++;
      return;
    }
    const size = frame.buffer.length;
    this.#lentBytes -= size;
    frame.isFree = true;
    const list = this.#free[frame.sizeClass];
    if (list === undefined || !this.#makeRoom(size, list)) return;
    this.#freeBytes += size;
    list.push(frame);
  }

  /**
   * Lets frames of the size go of which most lie here, until `size` more bytes fit. Else what an earlier load needed would
   * fill the pool for good, and every frame of another size would be new memory.
   */
  #makeRoom(size: number, own: readonly KeptFrame[]): boolean {
    while (this.#freeBytes + size > this.#limits.maxFree) {
      let most: KeptFrame[] = [];
      for (const list of this.#free) if (bytesOf(list) > bytesOf(most)) most = list;
      const frame = most === own ? undefined : most.pop();
      if (frame === undefined) return false;
      this.#freeBytes -= frame.buffer.length;
    }
    return true;
  }

  get #leastShare(): number {
    return this.#isCrowded ? CROWDED_SHARE : LEAST_SHARE;
  }

  get #isCrowded(): boolean {
    return this.#lentBytes - this.#apartBytes > CROWDED * this.#limits.budget;
  }

  #take(size: number): KeptFrame {
    for (let i = 0; i < SIZES.length; i++) {
      if ((SIZES[i] as number) >= size) {
        const frame = this.#free[i]?.pop();
        if (frame === undefined) return new KeptFrame(SIZES[i] as number, i);
        this.#freeBytes -= frame.buffer.length;
        frame.isFree = false;
        return frame;
      }
    }
    return new KeptFrame(size);
  }
}

/** A sender that got nothing through for so long is at a standstill. */
const PATIENCE_MS = 1_000;

/**
 * Whether a sender gets anything through. The memory of one that does not counts apart, so that it is not missing where
 * circuits move (docs/protocol/data-path.md, "Memory").
 */
export class Standstill {
  readonly #pool: FramePool;
  #movedAt = performance.now();
  #parked = 0;

  constructor(pool: FramePool) {
    this.#pool = pool;
  }

  /** Something got through, or all that is left is given up now. */
  moved(now: number): void {
    this.#movedAt = now;
    this.#park(0);
  }

  /** Call it from time to time, with the bytes of memory that the sender's frames lie in now. */
  look(now: number, memory: number): void {
    if (memory === 0) this.moved(now);
    else if (now - this.#movedAt >= PATIENCE_MS) this.#park(memory);
  }

  #park(memory: number): void {
    if (memory === this.#parked) return;
    this.#pool.park(memory - this.#parked);
    this.#parked = memory;
  }
}
