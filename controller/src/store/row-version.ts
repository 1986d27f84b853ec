/** Versions of rows, and writes that take effect only while a row has the version that its writer has seen. */
import { AsyncLocalStorage } from "node:async_hooks";
import { type Kysely, sql, type Transaction } from "kysely";
import type { Database } from "./schema.ts";

/** A row of a table whose key is `id`. */
export interface RowKey {
  readonly table: keyof Database & string;
  readonly id: string;
}

interface Condition {
  readonly key: RowKey;
  readonly versions: readonly string[];
  /** A transaction of the work has committed: what follows meets the row as the work itself has left it. */
  isMet: boolean;
}

const conditions = new AsyncLocalStorage<Condition>();

/** The row has another version than the writer has seen. Nothing was written. */
export class RowChangedError extends Error {
  override readonly name = "RowChangedError";
  readonly key: RowKey;

  constructor(key: RowKey) {
    super(`${key.table} ${key.id} was changed since it was read`);
    this.key = key;
  }
}

type Reader = Kysely<Database> | Transaction<Database>;

/** A text that every change of the row replaces; undefined when there is no row. PostgreSQL keeps it: the transaction that wrote the row. */
export async function rowVersion(db: Reader, { table, id }: RowKey): Promise<string | undefined> {
  const query = sql<{ version: string }>`SELECT xmin::text AS version FROM ${sql.table(table)} WHERE id = ${id}`;
  return (await query.execute(db)).rows[0]?.version;
}

/**
 * Runs work whose first transaction takes effect only if the row has one of the versions. The row is locked from that check to the commit.
 * All writes of the work have to be in transactions of the store: {@link isConditional} tells the work.
 * @throws RowChangedError out of that transaction. A row that is gone fails in the work itself.
 */
export function onlyIfUnchanged<T>(key: RowKey, versions: readonly string[], work: () => Promise<T>): Promise<T> {
  return conditions.run({ key, versions, isMet: false }, work);
}

/** Does the write that is worked on depend on the version of a row? Then it needs a transaction, even if it is a single statement. */
export function isConditional(): boolean {
  return conditions.getStore()?.isMet === false;
}

/** Runs a transaction, with the condition of {@link onlyIfUnchanged} if the work is within it. */
export async function withCondition<T>(
  db: Kysely<Database>,
  work: (trx: Transaction<Database>) => Promise<T>,
): Promise<T> {
  const condition = conditions.getStore();
  if (condition === undefined || condition.isMet) return await db.transaction().execute(work);
  const result = await db.transaction().execute(async (trx) => {
    await requireVersion(trx, condition);
    return await work(trx);
  });
  condition.isMet = true;
  return result;
}

async function requireVersion(trx: Transaction<Database>, { key, versions }: Condition): Promise<void> {
  const { rows } = await sql<{ version: string }>`
    SELECT xmin::text AS version FROM ${sql.table(key.table)} WHERE id = ${key.id} FOR UPDATE`.execute(trx);
  const [row] = rows;
  if (row !== undefined && !versions.includes(row.version)) throw new RowChangedError(key);
}
