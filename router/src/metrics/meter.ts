/** How often rates are updated. */
export const METER_TICK_MS = 5_000;

const TICK_S = METER_TICK_MS / 1000;
const WEIGHTS = [1, 5, 15].map((minutes) => 1 - Math.exp(-TICK_S / (60 * minutes)));

export type MeterSnapshot = ReturnType<Meter["snapshot"]>;

/** Makes rates of a counter that others keep, by reading it every {@link METER_TICK_MS}. Counting stays one addition. */
export class Meter {
  readonly #startedAt: number;
  #total = 0;
  #count = 0;
  #rates: number[] | undefined;
  #updatedAt: number;

  constructor(now: number) {
    this.#startedAt = now;
    this.#updatedAt = now;
  }

  /** @param total the counter's value; less than before means that it started again */
  tick(total: number, now: number): void {
    const more = total >= this.#total ? total - this.#total : total;
    const rate = more / TICK_S;
    this.#total = total;
    this.#count += more;
    this.#updatedAt = now;
    this.#rates = this.#rates?.map((old, i) => old + (WEIGHTS[i] ?? 0) * (rate - old)) ?? WEIGHTS.map(() => rate);
  }

  /** Rates per second: means over one, five and fifteen minutes in which the past fades exponentially, and since the start. */
  snapshot() {
    const [m1Rate = 0, m5Rate = 0, m15Rate = 0] = this.#rates ?? [];
    const seconds = (this.#updatedAt - this.#startedAt) / 1000;
    return { count: this.#count, m1Rate, m5Rate, m15Rate, meanRate: seconds > 0 ? this.#count / seconds : 0 };
  }
}

/** Counters by name. They only grow, or start again from zero. A meter ends when its name is no longer given. */
type Totals = () => Iterable<readonly [name: string, total: number]>;

/** A meter for each of the counters that others keep. */
export class Meters {
  readonly #totals: Totals;
  readonly #timer: NodeJS.Timeout;
  #meters = new Map<string, Meter>();

  constructor(totals: Totals) {
    this.#totals = totals;
    this.tick(Date.now());
    this.#timer = setInterval(() => this.tick(Date.now()), METER_TICK_MS).unref();
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
