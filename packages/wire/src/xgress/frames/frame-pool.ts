import type { FrameView } from "../../frame/frame.ts";

/** Sizes a frame's memory may have: small frames, 1 KiB, 4 KiB, the usual payload sizes with their headers, 64 KiB. */
const SIZES = [256, 1280, 4352, 10752, 17152, 33536, 66304] as const;

/** What one circuit may always hold, however many others there are. */
const LEAST_SHARE = 64 * 1024;

/**
 * A frame with memory of its own: sent and not yet acknowledged, waiting for room, or received out of order. Where its
 * parts lie in `buffer` is up to whoever took it from the pool.
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
  /** It lies in the pool: whoever still holds it must not touch it. */
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

/** How much memory for frames a program uses. */
export interface FramePoolLimits {
  /**
   * Bytes that all frames in use should take together. No circuit gets more than what is left of it, so that a single
   * one has its whole window, and many share (docs/protocol/data-path.md, "Memory").
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

  /** How many bytes one circuit may hold now: what is left of the budget, and a little in any case. */
  get share(): number {
    return Math.max(this.#limits.budget - this.#lentBytes, LEAST_SHARE);
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
    if (list === undefined || this.#freeBytes + size > this.#limits.maxFree) return;
    this.#freeBytes += size;
    list.push(frame);
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
