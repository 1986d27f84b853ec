/** Sizes a buffer may have: small frames, 1 KiB, 4 KiB, the usual payload sizes with their headers, 64 KiB. */
const SIZES = [256, 1280, 4352, 10752, 17152, 33536, 66304] as const;

/**
 * Buffers for frames that must be kept: sent and not yet acknowledged, waiting for room, or received out of order.
 * Buffers go back by {@link FramePool.give} and are handed out again last in, first out, so a steady stream of payloads
 * allocates nothing and touches memory that is still in the cache (docs/protocol/data-path.md, "Memory").
 */
export class FramePool {
  readonly #free: Buffer[][] = SIZES.map(() => []);
  readonly #maxFreeBytes: number;
  #freeBytes = 0;

  /** @param maxFreeBytes how much unused memory is kept for reuse; what is given back beyond it goes to the collector. */
  constructor(maxFreeBytes = 64 * 1024 * 1024) {
    this.#maxFreeBytes = maxFreeBytes;
  }

  /** Bytes lying ready for reuse. */
  get freeBytes(): number {
    return this.#freeBytes;
  }

  /** A buffer of at least `size` bytes with undefined content. Frames beyond 64 KiB are allocated and never reused. */
  take(size: number): Buffer {
    for (let i = 0; i < SIZES.length; i++) {
      if ((SIZES[i] as number) >= size) {
        const buffer = this.#free[i]?.pop();
        if (buffer === undefined) return Buffer.allocUnsafeSlow(SIZES[i] as number);
        this.#freeBytes -= buffer.length;
        return buffer;
      }
    }
    return Buffer.allocUnsafeSlow(size);
  }

  /** Returns a buffer got from {@link take}; the caller must not touch it afterwards. */
  give(buffer: Buffer): void {
    const index = SIZES.indexOf(buffer.length as (typeof SIZES)[number]);
    if (index < 0 || this.#freeBytes + buffer.length > this.#maxFreeBytes) return;
    this.#freeBytes += buffer.length;
    this.#free[index]?.push(buffer);
  }
}
