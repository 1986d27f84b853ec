import { METER_TICK_MS, Meter } from "./meter.ts";

/** Counters by name; they only grow, or begin anew. Names that are no longer given end. */
export type Totals = () => Iterable<readonly [name: string, total: number]>;

/** Makes meters of counters that others keep, by looking at them now and then. */
export class Meters {
  readonly #totals: Totals;
  readonly #timer: NodeJS.Timeout;
  #meters = new Map<string, Meter>();

  constructor(totals: Totals) {
    this.#totals = totals;
    this.tick(Date.now());
    this.#timer = setInterval(() => this.tick(Date.now()), METER_TICK_MS);
    this.#timer.unref();
  }

  /** Brings all meters up to date. Called by the timer. */
  tick(now: number): void {
    const meters = new Map<string, Meter>();
    for (const [name, total] of this.#totals()) {
      const meter = this.#meters.get(name) ?? new Meter(now);
      meter.tick(total, now);
      meters.set(name, meter);
    }
    this.#meters = meters;
  }

  all(): Iterable<readonly [name: string, meter: Meter]> {
    return this.#meters;
  }

  get(name: string): Meter | undefined {
    return this.#meters.get(name);
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
