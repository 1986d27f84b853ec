import type { Logger } from "@sallyport/wire";
import { isSilence, reasonOf } from "./postgres/store-error.ts";

/** The database cannot be reached, or has no room for another query in time. The query may be tried again later; its cause says why. */
export class DatabaseUnavailableError extends Error {
  override name = "DatabaseUnavailableError";
  /** It passes by itself, for those who do not know the store (`isPassing` in `fabric/ports.ts`). */
  readonly isPassing = true;
}

/** Another controller may work on the database: this one has lost its lock, and takes it again or stops. */
export class NotHeldError extends DatabaseUnavailableError {
  override name = "NotHeldError";

  constructor() {
    super("the database cannot be used now: the lock on it was lost");
  }
}

/** The database ended a statement that took longer than it may, or waited too long for a lock. */
export class StatementTimeoutError extends Error {
  override name = "StatementTimeoutError";
  /** See {@link DatabaseUnavailableError.isPassing}. */
  readonly isPassing = true;
}

/** What the operating system says of a server that is not there. */
const NETWORK = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ECONNABORTED",
  "ENOENT",
  "EPIPE",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
]);
/**
 * SQLSTATEs of a server that cannot serve: connection failures (08…), out of connections, memory or disk (53…), shutting down, starting or
 * crashed (57P0x), a standby after a failover (25006: it takes no writes), and ours of a database that another controller works on (SP001).
 */
const STATES = /^(08...|53...|57P0[1-5]|25006|SP001)$/;
/** What the client library says without a code. */
const TEXTS =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Cannot use a pool after)/;
const QUERY_CANCELED = "57014";
const LOCK_NOT_AVAILABLE = "55P03";

/** The error as the rest of the program sees it: those two kinds by their names, others unchanged. */
function classified(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof DatabaseUnavailableError) return error;
  const { code = "" } = error as { code?: string };
  if (NETWORK.has(code) || STATES.test(code) || (code === "" && (TEXTS.test(error.message) || isSilence(error)))) {
    return new DatabaseUnavailableError(`the database cannot be used now: ${reasonOf(error)}`, { cause: error });
  }
  if (code === QUERY_CANCELED || code === LOCK_NOT_AVAILABLE) {
    return new StatementTimeoutError(`the database ended a statement: ${error.message}`, { cause: error });
  }
  return error;
}

/**
 * Watches all use of the database and says once that it went away, and once that it is back. Who asks the database takes the turn first and gives it back
 * with what comes of it: an outage ends by an answer to what was asked during it, and what was asked before it or during it begins no other one. A free
 * connection proves nothing, because one that is lost may not be known as lost yet.
 */
export class Outage {
  readonly #log: Logger;
  /** Goes up with each beginning and each end. */
  #turn = 0;
  #since: number | undefined;
  /** The same by the steady clock. */
  #began = 0;
  #failures = 0;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** When the present outage began; undefined while the database answers. */
  get since(): Date | undefined {
    return this.#since === undefined ? undefined : new Date(this.#since);
  }

  /** To be taken before the database is asked. */
  get turn(): number {
    return this.#turn;
  }

  /** Takes note of the failure of what was asked at `turn`. @returns the error to throw. */
  failed(error: unknown, turn: number): unknown {
    const shown = classified(error);
    if (!(shown instanceof DatabaseUnavailableError)) return shown;
    if (this.#since !== undefined) this.#failures++;
    else if (turn === this.#turn) {
      this.#turn++;
      this.#since = Date.now();
      this.#began = performance.now();
      this.#failures = 1;
      this.#log.error(
        { error: shown.message },
        "the database cannot be used: requests are answered with 503 until it is back",
      );
    }
    return shown;
  }

  /** Takes note that the database answered what was asked at `turn`. */
  answered(turn: number): void {
    if (this.#since === undefined || turn !== this.#turn) return;
    this.#turn++;
    const milliseconds = Math.round(performance.now() - this.#began);
    this.#log.info({ milliseconds, failures: this.#failures }, "the database can be used again");
    this.#since = undefined;
  }
}
