import type { Executor } from "./driver/statement.ts";
import { Statement } from "./driver/statement.ts";

const NOW = new Statement<{ at: number }>("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at");

/**
 * The time of the database's server, for what several controllers have to put in one order, such as the ids of API sessions. Each answer of the server says that
 * its time lay between that of the question and that of the answer. The estimate changes only as far as an answer contradicts it, so slow answers do no harm.
 */
export class DatabaseClock {
  readonly #db: Executor;
  readonly #own: () => number;
  /** What has to be added to our own clock. */
  #offsetMs: number | undefined;
  #last = 0;

  /** @param own milliseconds of a clock that does not go back */
  constructor(db: Executor, own: () => number = () => performance.now()) {
    this.#db = db;
    this.#own = own;
  }

  /** Asks the server. Without it the estimate becomes wrong by as much as the two clocks drift apart. */
  async learn(): Promise<void> {
    const asked = this.#own();
    const row = await NOW.first(this.#db, []);
    const answered = this.#own();
    if (row === undefined) return;
    const [least, most] = [row.at - answered, row.at - asked];
    const before = this.#offsetMs ?? (least + most) / 2;
    this.#offsetMs = Math.min(most, Math.max(least, before));
  }

  /** Whole milliseconds since 1970; never less than before. */
  now(): number {
    const offsetMs = this.#offsetMs ?? Date.now() - this.#own();
    this.#last = Math.max(this.#last, Math.floor(this.#own() + offsetMs));
    return this.#last;
  }
}
