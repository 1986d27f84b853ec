import type { FramePool } from "../frames/frame-pool.ts";

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
