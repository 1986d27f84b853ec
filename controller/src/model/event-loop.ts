/** How work shares the event loop with the requests that come meanwhile. */
import { setImmediate as nextTurn } from "node:timers/promises";

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
    await nextTurn();
    this.#since = performance.now();
  }
}

const waiting: (() => void)[] = [];

/**
 * Resolves in a turn of the event loop that no other caller gets, first come, first served. Code that is about to write out a long page awaits one: answers of
 * the database that arrive together would otherwise be written out in the same turn, and other requests would wait for all of them.
 */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(next);
  });
}

function next(): void {
  const [resolve] = waiting;
  resolve?.();
  waiting.shift();
  if (waiting.length > 0) setImmediate(next);
}
