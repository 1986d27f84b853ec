import type { Executor } from "../driver/statement.ts";
import { Statement } from "../driver/statement.ts";

/** The time of the database as a number, for statements that a {@link DatabaseClock} learns from. */
export const TIME_MS = "(extract(epoch FROM clock_timestamp()) * 1000)::float8";
const NOW = new Statement<{ at: number }>(`SELECT ${TIME_MS} AS at`);

/** The time that decides about what several processes share. */
export interface StoreClock {
  /** Whole milliseconds since 1970. */
  now(): number;
  /** By how much the clock of this process is ahead of it; negative when it is behind. */
  readonly aheadMs: number;
}

/** Of an embedded database, which is on the machine of its one process. */
export const OWN_CLOCK: StoreClock = { now: () => Date.now(), aheadMs: 0 };

/**
 * The time of the database's server, by which several controllers decide about what they share. Each answer of the server says that its time lay between that of
 * the question and that of the answer. The estimate changes only as far as an answer contradicts it, so slow answers do no harm.
 */
export class DatabaseClock implements StoreClock {
  readonly #db: Executor;
  readonly #own: () => number;
  /** What has to be added to our own clock. */
  #offsetMs: number | undefined;

  /** @param own milliseconds of a clock that does not go back */
  constructor(db: Executor, own: () => number = () => performance.now()) {
    this.#db = db;
    this.#own = own;
  }

  /** Asks the server. Without it the estimate becomes wrong by as much as the two clocks drift apart. */
  async learn(): Promise<void> {
    await this.heard(async () => (await NOW.first(this.#db, []))?.at);
  }

  /** Learns from the answer to another question. @param ask resolves with what the server answered, {@link TIME_MS} */
  async heard(ask: () => Promise<number | undefined>): Promise<void> {
    const asked = this.#own();
    const at = await ask();
    const answered = this.#own();
    if (at === undefined) return;
    const [least, most] = [at - answered, at - asked];
    const before = this.#offsetMs ?? (least + most) / 2;
    this.#offsetMs = Math.min(most, Math.max(least, before));
  }

  now(): number {
    return Math.floor(this.#own() + (this.#offsetMs ?? Date.now() - this.#own()));
  }

  get aheadMs(): number {
    return Date.now() - this.now();
  }
}
