import {
  AbortedTransactionError,
  CompiledQuery,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type TransactionSettings,
} from "kysely";
import type pg from "pg";
import { NotHeldError, type Outage } from "../outage.ts";
import { ask } from "../postgres/store-client.ts";
import { type ConnectionShared, type Holding, StatementNames, StoreConnection } from "./connection.ts";
import { type StatementOptions, withOptions } from "./statement.ts";

const UNHELD: Holding = { isHeld: true, epoch: undefined, fenced: () => undefined };

export interface StoreDriverOptions {
  readonly pool: pg.Pool;
  readonly outage: Outage;
  /** Called when new rows of the change log may be visible. */
  readonly onAppended: (isAwaited: boolean) => void;
  readonly holding?: Holding | undefined;
  /** How long the server may take to answer a short query. */
  readonly answerMs: number;
}

/** PostgreSQL for Kysely, over {@link StoreDriver}. */
export function storeDialect(options: StoreDriverOptions): Dialect {
  return {
    createDriver: () => new StoreDriver(options),
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  };
}

/**
 * How the store runs its statements.
 *
 * - **Prepared statements.** Each connection prepares a statement once ({@link StatementNames}).
 * - **Change log.** A statement declares by its options that it appends to the log, and the driver reports it to `onAppended`. It refuses a statement that
 *   appends without saying so.
 * - **Pipelining.** Within a transaction, a statement with `isPipelined` is sent together with the next one. If it fails, the server refuses the rest of the
 *   transaction. BEGIN is awaited: if it failed, the statements after it would take effect outside a transaction.
 * - **The right to work on the database.** While `holding` says that the lock is lost, no connection is handed out. Each connection names the epoch of
 *   `holding`. When the server refuses a statement of that epoch, it calls `holding.fenced`.
 * - **Silent servers.** The pool bounds the wait for each answer. A transaction that does long work has as long as {@link beginLongWork} says.
 * - **Outages.** Each failure to connect and the result of each query are reported to `outage`, which chooses the error that the caller gets.
 */
class StoreDriver implements Driver {
  readonly #shared: ConnectionShared;
  readonly #connections = new WeakMap<pg.PoolClient, StoreConnection>();

  constructor({ holding = UNHELD, ...rest }: StoreDriverOptions) {
    this.#shared = { ...rest, holding, names: new StatementNames() };
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<StoreConnection> {
    const { pool, outage, holding, answerMs } = this.#shared;
    const { turn } = outage;
    if (!holding.isHeld) throw outage.failed(new NotHeldError(), turn);
    const client = await pool.connect().catch((error: unknown) => {
      throw outage.failed(error, turn);
    });
    const connection = this.#connections.get(client) ?? new StoreConnection(client, this.#shared);
    this.#connections.set(client, connection);
    const { epoch } = holding;
    if (epoch !== undefined && connection.epoch !== epoch) {
      try {
        await ask(client, "SELECT set_config('sallyport.epoch', $1, false)", [epoch], answerMs);
        connection.epoch = epoch;
      } catch (error) {
        client.release(true);
        throw outage.failed(error, turn);
      }
    }
    return connection;
  }

  async beginTransaction(
    connection: StoreConnection,
    { isolationLevel, accessMode }: TransactionSettings,
  ): Promise<void> {
    const isolation = isolationLevel === undefined ? "" : ` isolation level ${isolationLevel}`;
    const access = accessMode === undefined ? "" : ` ${accessMode}`;
    await run(connection, `begin${isolation}${access}`, { transaction: "begin" });
  }

  async commitTransaction(connection: StoreConnection): Promise<void> {
    const { rows } = await run(connection, "commit", { transaction: "commit" });
    // The server answers so when an earlier statement has failed.
    if (rows[0]?.command === "ROLLBACK") throw new AbortedTransactionError();
  }

  async rollbackTransaction(connection: StoreConnection): Promise<void> {
    try {
      await run(connection, "rollback", { transaction: "rollback" });
    } catch (error) {
      connection.markBroken();
      throw error;
    }
  }

  async releaseConnection(connection: StoreConnection): Promise<void> {
    connection.release();
  }

  async destroy(): Promise<void> {
    await this.#shared.pool.end();
  }
}

function run(connection: StoreConnection, text: string, options: StatementOptions) {
  return connection.executeQuery<{ command: string }>(withOptions(CompiledQuery.raw(text), options));
}
