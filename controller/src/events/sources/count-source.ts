import { errorText } from "@sallyport/async";
import type { Dispatcher } from "../dispatcher.ts";

/** Counts entities for its subscribers, each at the interval of the subscription. */
export class CountSource {
  readonly #dispatcher: Dispatcher;
  readonly #counts: () => Promise<Readonly<Record<string, number>>>;
  readonly #timers = new Map<number, NodeJS.Timeout>();
  readonly #running = new Set<number>();
  readonly #stopDemand: () => void;

  constructor(dispatcher: Dispatcher, counts: () => Promise<Readonly<Record<string, number>>>) {
    this.#dispatcher = dispatcher;
    this.#counts = counts;
    this.#stopDemand = dispatcher.onDemand(() => this.#demandChanged());
  }

  stop(): void {
    this.#stopDemand();
    for (const timer of this.#timers.values()) clearInterval(timer);
    this.#timers.clear();
  }

  #demandChanged(): void {
    const wanted = this.#dispatcher.intervals("entityCount");
    for (const [interval, timer] of this.#timers) {
      if (wanted.has(interval)) continue;
      clearInterval(timer);
      this.#timers.delete(interval);
    }
    for (const interval of wanted) {
      if (this.#timers.has(interval)) continue;
      this.#timers.set(interval, setInterval(() => void this.#emitCounts(interval), interval).unref());
    }
  }

  /** A count that takes longer than the interval is not started again meanwhile. */
  async #emitCounts(interval: number): Promise<void> {
    if (this.#running.has(interval)) return;
    this.#running.add(interval);
    let counts: Readonly<Record<string, number>> = {};
    let error = "";
    try {
      counts = await this.#counts();
    } catch (cause) {
      error = `the entities could not be counted: ${errorText(cause)}`;
    } finally {
      this.#running.delete(interval);
    }
    this.#dispatcher.emitPeriodic({ namespace: "entityCount", counts, error }, interval);
  }
}
