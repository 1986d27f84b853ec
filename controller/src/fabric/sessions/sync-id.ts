import { randomBytes } from "node:crypto";

const TIME_DIGITS = 9;
const COUNTER_DIGITS = 5;

/**
 * Makes ids of full synchronisations. Routers compare them as text: a greater id aborts the synchronisation that is running, a smaller one is ignored. So
 * every id is greater than all earlier ones of this process, also when the clock steps back, and than those of earlier processes. Lower-case base 36.
 *
 * Source: docs/protocol/fabric.md, "Session synchronisation".
 */
export class SyncIds {
  readonly #now: () => number;
  #time = 0;
  #counter = 0;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  next(): string {
    const now = this.#now();
    if (now > this.#time) {
      this.#time = now;
      this.#counter = 0;
    } else {
      this.#counter += 1;
    }
    const time = this.#time.toString(36).padStart(TIME_DIGITS, "0");
    const counter = this.#counter.toString(36).padStart(COUNTER_DIGITS, "0");
    return `s${time}${counter}${randomBytes(4).toString("hex")}`;
  }
}
