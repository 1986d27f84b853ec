import { setImmediate } from "node:timers/promises";

/** Longest piece of work between two turns of the event loop. */
const SLICE_MS = 8;
/** The clock is asked once in so many steps. */
const STEPS = 64;

/** Cuts long work into slices, so that everything else goes on: `if (breath.isDue) await breath.take()` in every step of a loop. */
export class Breath {
  #since = performance.now();
  #steps = 0;

  /** Has the slice lasted long enough? */
  get isDue(): boolean {
    this.#steps += 1;
    return this.#steps % STEPS === 0 && performance.now() - this.#since > SLICE_MS;
  }

  /** The same after a step that is long itself: the clock is asked now. */
  get isOver(): boolean {
    return performance.now() - this.#since > SLICE_MS;
  }

  /** Lets the event loop turn. */
  async take(): Promise<void> {
    await setImmediate();
    this.#since = performance.now();
  }
}
