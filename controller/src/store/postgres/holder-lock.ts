import { hostname } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "@sallyport/wire";
import pg from "pg";
import { CONNECTION_LIMITS } from "./connection-limits.ts";

/** Another controller works on this database. The message names it. */
export class DatabaseHeldError extends Error {
  override name = "DatabaseHeldError";
  /** How the holder named itself: program, host and process number. */
  readonly holder: string;

  constructor(holder: string, since: string) {
    super(
      `the database is in use by ${holder}${since}: only one controller may work on a database; stop that one first, or give this one a database of its own`,
    );
    this.holder = holder;
  }
}

// Two halves of the key of the advisory lock: "SALLYPOR", "HOLD" as it were; any constant does.
const LOCK_CLASS = 0x5a11_0002;
const LOCK_OBJECT = 1;
const NAME_PREFIX = "sallyport-controller ";
const LONGEST_NAME = 63;
const AGAIN_MS = 100;
const RECONNECT_MS = 1_000;

export interface HolderLockOptions {
  connection: pg.ClientConfig;
  /** Name under which a second controller is told of us; default: host and process number. */
  name?: string;
  /** How long to wait for a holder that has just been killed: its server side ends a moment after it. */
  patienceMs?: number;
  /** Called when the connection was lost and another controller has taken the database meanwhile: stop at once. */
  onLost: (error: DatabaseHeldError) => void;
  log: Logger;
}

/**
 * The right to be the only controller on a database: an advisory lock of PostgreSQL, held by a connection of its own for as long as
 * the controller lives, and gone with it, however it ends.
 */
export class HolderLock {
  readonly #options: HolderLockOptions;
  #client: pg.Client | undefined;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;

  private constructor(options: HolderLockOptions) {
    this.#options = options;
  }

  /** @throws DatabaseHeldError naming the holder. */
  static async acquire(options: HolderLockOptions): Promise<HolderLock> {
    const lock = new HolderLock(options);
    await lock.#acquire();
    return lock;
  }

  async release(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined);
  }

  async #acquire(): Promise<void> {
    const { connection, name, patienceMs = 3_000 } = this.#options;
    const client = new pg.Client({
      ...connection,
      ...CONNECTION_LIMITS,
      application_name: (NAME_PREFIX + (name ?? `on ${hostname()}, process ${process.pid}`)).slice(0, LONGEST_NAME),
    });
    client.on("error", (error) => this.#lost(client, error));
    client.on("end", () => this.#lost(client, undefined));
    await client.connect();
    const deadline = Date.now() + patienceMs;
    for (;;) {
      const { rows } = await client.query<{ held: boolean }>("SELECT pg_try_advisory_lock($1, $2) AS held", [
        LOCK_CLASS,
        LOCK_OBJECT,
      ]);
      if (rows[0]?.held) break;
      if (Date.now() > deadline) {
        const error = await holderError(client);
        await client.end();
        throw error;
      }
      await delay(AGAIN_MS);
    }
    this.#client = client;
  }

  #lost(client: pg.Client, error: unknown): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    this.#options.log.warn(
      { error: String(error ?? "connection ended") },
      "the connection that holds the database was lost; taking it again",
    );
    client.end().catch(() => undefined);
    this.#again();
  }

  #again(): void {
    this.#retry = setTimeout(async () => {
      try {
        await this.#acquire();
      } catch (error) {
        if (this.#closed) return;
        if (error instanceof DatabaseHeldError) this.#options.onLost(error);
        else this.#again();
      }
    }, RECONNECT_MS).unref();
  }
}

/**
 * Asks whether a controller holds the database at `connection`; where no server is, or one that starts or stops, none does.
 *
 * @throws DatabaseHeldError when one does
 * @throws Error when the server is there and does not say, however often it is asked
 */
export async function requireUnheld(connection: pg.ClientConfig, patienceMs = 20_000): Promise<void> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    try {
      return await askOnce(connection, Math.min(5_000, patienceMs));
    } catch (error) {
      if (error instanceof DatabaseHeldError) throw error;
      if (isAway(error)) return;
      if (Date.now() > deadline) {
        throw new Error(
          `the database server does not say whether a controller works on it (${(error as Error).message}); stop the server first if none does`,
          { cause: error },
        );
      }
      await delay(AGAIN_MS);
    }
  }
}

async function askOnce(connection: pg.ClientConfig, connectionTimeoutMillis: number): Promise<void> {
  const client = new pg.Client({ ...connection, ...CONNECTION_LIMITS, connectionTimeoutMillis });
  client.on("error", () => undefined);
  try {
    await client.connect();
    const deadline = Date.now() + 3_000;
    while (await isHeld(client)) {
      if (Date.now() > deadline) throw await holderError(client);
      await delay(AGAIN_MS);
    }
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function isHeld(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>("SELECT pg_try_advisory_lock($1, $2) AS held", [
    LOCK_CLASS,
    LOCK_OBJECT,
  ]);
  if (!rows[0]?.held) return true;
  await client.query("SELECT pg_advisory_unlock($1, $2)", [LOCK_CLASS, LOCK_OBJECT]);
  return false;
}

/** Nobody listens, or the server starts, stops or has ended (SQLSTATE class 57P). */
function isAway(error: unknown): boolean {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  return /^(ECONNREFUSED|ENOENT|ECONNRESET|EPIPE|57P0\d)$/.test(code) || /terminated unexpectedly/.test(message);
}

async function holderError(client: pg.Client): Promise<DatabaseHeldError> {
  const { rows } = await client.query<{ name: string; address: string | null; since: Date | null }>(
    `SELECT a.application_name AS name, host(a.client_addr) AS address, a.backend_start AS since
     FROM pg_locks l JOIN pg_stat_activity a USING (pid)
     WHERE l.locktype = 'advisory' AND l.granted AND l.classid = $1 AND l.objid = $2
       AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    [LOCK_CLASS, LOCK_OBJECT],
  );
  const row = rows[0];
  if (!row) return new DatabaseHeldError("another controller (which has just ended)", "");
  const address = row.address ? ` (${row.address})` : "";
  return new DatabaseHeldError(
    `${row.name || "another program"}${address}`,
    row.since ? ` since ${row.since.toISOString()}` : "",
  );
}
