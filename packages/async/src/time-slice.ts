/** Longest piece of work between two turns of the event loop. */
const SLICE_MS = 8;
/** The clock is read once in so many steps. */
const STEPS = 64;

/** Cuts long work into time slices, so that other work goes on between them: `if (slice.isDue) await slice.pause()` in every step of a loop. */
export class TimeSlice {
  #since = performance.now();
  #steps = 0;

  /** Has the slice lasted long enough? Reads the clock in one of 64 calls. */
  get isDue(): boolean {
    this.#steps += 1;
    return this.#steps % STEPS === 0 && performance.now() - this.#since > SLICE_MS;
  }

  /** The same after a step that is long itself: reads the clock at once. */
  get isOver(): boolean {
    return performance.now() - this.#since > SLICE_MS;
  }

  /** Lets the event loop turn, and begins the next slice. */
  async pause(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#since = performance.now();
  }
}
