import { type CompiledQuery, createQueryId, type QueryResult, RawNode } from "kysely";
import { LONG_STATEMENTS } from "../postgres/store-client.ts";

/** What the driver has to know of a statement. The text of a statement tells it nothing. */
export interface StatementOptions {
  /** It appends rows to the change log: the log is read once they may be visible. */
  readonly appendsChanges?: boolean;
  /** What it appends takes nothing away and is in no process's memory yet: no answer waits until other processes know it. */
  readonly addsOnly?: boolean | undefined;
  /**
   * Nothing reads its result. Within a transaction it is sent together with the next statement, which fails if this one does. Outside of a transaction it is
   * awaited like any other.
   */
  readonly isPipelined?: boolean | undefined;
  /** From here on, the server may work for minutes on each statement of the transaction, and on its commit. */
  readonly beginsLongWork?: boolean;
  /** It begins or ends a transaction. Set by the driver only. */
  readonly transaction?: "begin" | "commit" | "rollback";
}

/** A compiled statement with its options. */
export interface StoreQuery<Row = unknown> extends CompiledQuery<Row> {
  readonly options?: StatementOptions;
}

/** Where a statement can be run: a database or a transaction of Kysely. */
export interface Executor {
  executeQuery<R>(query: CompiledQuery<R>): Promise<QueryResult<R>>;
}

/**
 * A statement of fixed text for paths where every microsecond counts: what a query builder would put together for each call is put together once.
 * Like all others it is prepared once per connection.
 */
export class Statement<Row> {
  readonly #fixed: Pick<StoreQuery<Row>, "sql" | "query" | "options">;

  /** @param text with parameters `$1`, `$2`, … */
  constructor(text: string, options: StatementOptions = {}) {
    const sql = text.replaceAll(/\s+/g, " ").trim();
    this.#fixed = { sql, query: RawNode.createWithSql(sql), options };
  }

  async rows(db: Executor, parameters: readonly unknown[]): Promise<Row[]> {
    const query: StoreQuery<Row> = { ...this.#fixed, parameters, queryId: createQueryId() };
    const { rows } = await db.executeQuery<Row>(query);
    return rows;
  }

  async first(db: Executor, parameters: readonly unknown[]): Promise<Row | undefined> {
    const [row] = await this.rows(db, parameters);
    return row;
  }
}

/** The statement for the driver, with its options. */
export function withOptions<Row>(query: CompiledQuery<Row>, options: StatementOptions): StoreQuery<Row> {
  return { ...query, options };
}

const BEGIN_LONG_WORK = new Statement<never>(LONG_STATEMENTS, { beginsLongWork: true });

/** Allows the statements of the transaction from here on, and its commit, five minutes each. */
export async function beginLongWork(trx: Executor): Promise<void> {
  await BEGIN_LONG_WORK.rows(trx, []);
}

/** The length that PostgreSQL guesses for an array that it does not know. */
const GUESSED_LENGTH = 10;

/**
 * Ids for `= ANY ($1::text[])`, at least ten: fewer are filled up by repeating the first, which changes nothing in the result. For a shorter array than it
 * guesses, PostgreSQL would plan a prepared statement again with each call; for statements of several tables that costs more than running them.
 */
export function likely(ids: readonly string[]): readonly string[] {
  const [first] = ids;
  if (first === undefined || ids.length >= GUESSED_LENGTH) return ids;
  return [...ids, ...new Array<string>(GUESSED_LENGTH - ids.length).fill(first)];
}
