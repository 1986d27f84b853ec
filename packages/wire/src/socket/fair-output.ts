import type { Underlay } from "../channel/channel.ts";
import type { Output } from "./slab-output.ts";

/** A circuit with something to write to an output that was full. */
export interface Waiter {
  /**
   * Writes at most one payload to the output it waits for and says whether it wants another turn. Called only while the
   * output has room. A waiter that has become obsolete answers `false`.
   */
  takeTurn(): boolean;
  /** The connection it waited for is gone: find another one, or give up. */
  outputGone(): void;
}

/**
 * Shares the room of one connection between circuits. A circuit that finds the output full (or others already waiting)
 * joins the ring; when the output drains, the waiters get one payload each in turn until it is full again, so a circuit
 * with much to send cannot starve one with little (docs/protocol/data-path.md, "Push-back").
 */
export class FairOutput {
  readonly underlay: Underlay;
  readonly output: Output;
  readonly #waiters: Waiter[] = [];
  readonly #waiting = new Set<Waiter>();
  #armed = false;
  #sharing = false;

  constructor(underlay: Underlay) {
    this.underlay = underlay;
    this.output = underlay.output;
  }

  /** True when a newcomer has to wait: the output is full, or others wait already. */
  get isFull(): boolean {
    return this.output.isFull || (this.#waiting.size > 0 && !this.#sharing);
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Puts a circuit into the ring; joining twice counts once. */
  wait(waiter: Waiter): void {
    if (this.#waiting.has(waiter)) return;
    this.#waiting.add(waiter);
    this.#waiters.push(waiter);
    if (!this.#sharing) this.#arm();
  }

  leave(waiter: Waiter): void {
    this.#waiting.delete(waiter);
  }

  #share(): void {
    this.#sharing = true;
    let given = 0;
    try {
      while (this.#waiting.size > 0 && !this.output.isFull && !this.underlay.isClosed) {
        const waiter = this.#waiters[given++];
        if (waiter === undefined) break;
        // Taken out first: a waiter that asks again during its turn stays.
        if (this.#waiting.delete(waiter) && waiter.takeTurn()) this.wait(waiter);
      }
    } finally {
      this.#waiters.splice(0, given);
      this.#sharing = false;
      if (this.#waiting.size > 0 && !this.underlay.isClosed) this.#arm();
    }
    if (this.underlay.isClosed) this.#abandon();
  }

  #abandon(): void {
    const left = [...this.#waiting];
    this.#waiting.clear();
    this.#waiters.length = 0;
    for (const waiter of left) waiter.outputGone();
  }

  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    this.output.onDrain(() => {
      this.#armed = false;
      if (this.underlay.isClosed) this.#abandon();
      else this.#share();
    });
  }
}
