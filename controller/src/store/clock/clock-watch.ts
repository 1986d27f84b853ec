import type { Logger } from "@sallyport/wire";
import type { StoreClock } from "./database-clock.ts";

/** From this difference between the clocks of a process and its database on, an administrator should look. */
export const CLOCK_WARNING_MS = 30_000;

/** Says in the log that the clock of this machine is not that of the database: once, and again when the difference has changed as much. */
export class ClockWatch {
  readonly #clock: Pick<StoreClock, "aheadMs">;
  readonly #log: Logger;
  /** The difference that the log has told of; zero for none. */
  #toldMs = 0;

  constructor(clock: Pick<StoreClock, "aheadMs">, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  look(): void {
    const { aheadMs } = this.#clock;
    const isWrong = Math.abs(aheadMs) > CLOCK_WARNING_MS;
    if (!isWrong) {
      if (this.#toldMs !== 0) this.#log.info({}, "the clock of this machine agrees with that of the database again");
      this.#toldMs = 0;
      return;
    }
    if (Math.abs(aheadMs - this.#toldMs) <= CLOCK_WARNING_MS) return;
    this.#toldMs = aheadMs;
    this.#log.warn(
      { seconds: Math.round(Math.abs(aheadMs) / 1_000) },
      `the clock of this machine is ${aheadMs > 0 ? "ahead of" : "behind"} that of the database, which counts: set both by the same source`,
    );
  }
}
