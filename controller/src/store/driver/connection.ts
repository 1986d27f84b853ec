import { createHash } from "node:crypto";
import type { DatabaseConnection, QueryResult } from "kysely";
import type pg from "pg";
import type { Outage } from "../outage.ts";
import { TAKES_NO_WRITES } from "../postgres/database-servers.ts";
import { EPOCH_OVER } from "../postgres/epoch.ts";
import type { HolderLock } from "../postgres/holder-lock.ts";
import { ask, LONG_ANSWER_MS, StoreClient, socketOf } from "../postgres/store-client.ts";
import { isSilence } from "../postgres/store-error.ts";
import { isForgotten } from "../request-signal.ts";
import type { StatementOptions, StoreQuery } from "./statement.ts";

const MAX_PREPARED = 1_000;
/** The result has every column of a table: another one when a newer program has added a column. */
const ALL_COLUMNS = /(?:\bselect|\bdistinct|\breturning|,)\s+(?:"?\w+"?\.)?\*/i;
/** Code and message of PostgreSQL for a prepared statement whose result has other columns than when it was prepared. */
const RESULT_CHANGED = { code: "0A000", message: "cached plan must not change result type" };
const APPENDS_CHANGES = /\binsert\s+into\s+"?change_log\b/i;

/** The right to work on the database ({@link HolderLock}). Without it nothing is read or written. */
export type Holding = Pick<HolderLock, "isHeld" | "epoch" | "fenced">;

/** What all connections of a store share. */
export interface ConnectionShared {
  readonly pool: pg.Pool;
  readonly outage: Outage;
  /** Called when new rows of the change log may be visible: after a statement that appends some, or after the end of its transaction. */
  readonly onAppended: (isAwaited: boolean) => void;
  readonly holding: Holding;
  readonly names: StatementNames;
  /** How long the server may take to answer a short query. */
  readonly answerMs: number;
}

/** A statement appends to the change log and does not say so: readers of the log would learn of it late. */
export class UndeclaredChangeError extends Error {
  override name = "UndeclaredChangeError";

  constructor(text: string) {
    super(
      `a statement appends to the change log without declaring it: use loggedWrite or appendChange. Found: ${text}`,
    );
  }
}

interface KnownText {
  readonly name: string | undefined;
  readonly appends: boolean;
  /** Do its columns change with the schema? */
  readonly isOpen: boolean;
}

/**
 * The names under which statements are prepared: a hash of their text. PostgreSQL then parses each text once per connection, which saves a third to a half of
 * its work for short queries. After 1,000 distinct texts, new ones are not prepared, so that generated texts cost no memory.
 */
export class StatementNames {
  readonly #known = new Map<string, KnownText>();

  /**
   * Within a transaction, a statement whose columns change with the schema has no name: an error would end the transaction.
   * @throws UndeclaredChangeError
   */
  of(text: string, { appendsChanges = false }: StatementOptions, isInTransaction: boolean): string | undefined {
    const { name, appends, isOpen } = this.#known.get(text) ?? this.#learn(text);
    if (appends && !appendsChanges) throw new UndeclaredChangeError(text);
    return isOpen && isInTransaction ? undefined : name;
  }

  #learn(text: string): KnownText {
    const facts = { appends: APPENDS_CHANGES.test(text), isOpen: ALL_COLUMNS.test(text) };
    if (this.#known.size >= MAX_PREPARED) return { name: undefined, ...facts };
    const learned = { name: createHash("sha256").update(text).digest("base64url").slice(0, 22), ...facts };
    this.#known.set(text, learned);
    return learned;
  }
}

/** The client of a pool of the store; in tests it may be another. */
function storeClient(client: pg.PoolClient): StoreClient | undefined {
  return client instanceof StoreClient ? client : undefined;
}

/** One connection of the pool, as Kysely uses it. {@link StoreDriver} describes what it does besides. */
export class StoreConnection implements DatabaseConnection {
  /** The epoch that the server knows this connection by. */
  epoch: string | undefined;
  readonly #client: pg.PoolClient;
  readonly #shared: ConnectionShared;
  #isInTransaction = false;
  /** Its transaction does long work. */
  #isLong = false;
  #hasAppended = false;
  /** Other processes have to know what was appended before a caller gets an answer. */
  #isAwaited = false;
  /** The answers that are still to come to pipelined statements. */
  #pipelined: Promise<unknown>[] = [];
  #running: StoreQuery["queryId"] | undefined;
  #isBroken = false;
  /** Its prepared statements are of a former schema. */
  #isOutdated = false;

  constructor(client: pg.PoolClient, shared: ConnectionShared) {
    this.#client = client;
    this.#shared = shared;
  }

  async executeQuery<Row>(query: StoreQuery): Promise<QueryResult<Row>> {
    if (this.#isBroken)
      throw new Error("the connection to the database could not end its transaction and is not used again");
    const { sql: text, parameters, options = {} } = query;
    const { transaction } = options;
    if (transaction === "begin") this.#isInTransaction = true;
    else if (transaction === "rollback") this.#isInTransaction = false;
    if (!this.#isInTransaction || transaction === "begin") this.#isLong = false;
    else if (options.beginsLongWork) this.#isLong = true;
    const name = this.#shared.names.of(text, options, this.#isInTransaction);
    const send = () => this.#sendPrepared<Row>(text, parameters, parameters.length > 0 ? name : undefined);
    // A commit runs what was deferred to it, so it has as long as the statements before it.
    if (transaction === "commit") this.#isInTransaction = false;
    if (options.appendsChanges) {
      this.#hasAppended = true;
      if (options.addsOnly !== true) this.#isAwaited = true;
    }
    if (options.isPipelined && this.#isInTransaction) {
      // It goes out with the next one, in one write.
      if (this.#pipelined.length === 0) socketOf(this.#client).cork();
      const answer = send();
      answer.catch(() => undefined);
      this.#pipelined.push(answer);
      return { rows: [] };
    }
    this.#running = query.queryId;
    try {
      return await this.#answer(send);
    } finally {
      this.#running = undefined;
      // Also after an error: whether a commit whose answer was lost took effect is not known.
      if (this.#hasAppended && !this.#isInTransaction) {
        const isAwaited = this.#isAwaited;
        this.#hasAppended = false;
        this.#isAwaited = false;
        this.#shared.onAppended(isAwaited);
      }
    }
  }

  /** Sends a statement. The answer includes those to the pipelined statements before it. */
  async #answer<Row>(send: () => Promise<QueryResult<Row>>): Promise<QueryResult<Row>> {
    const { holding, outage } = this.#shared;
    const earlier = this.#pipelined;
    this.#pipelined = [];
    const { turn } = outage;
    try {
      const answer = send();
      if (earlier.length > 0) {
        socketOf(this.#client).uncork();
        answer.catch(() => undefined);
        // What failed first is the reason; the server refuses, or rolls back, all that follows in the transaction.
        for (const each of earlier) await each;
      }
      const result = await answer;
      outage.answered(turn);
      return result;
    } catch (error) {
      const isRefused = (error as { code?: string }).code === EPOCH_OVER;
      // A connection in a transaction may still name an epoch before ours.
      if (isRefused && this.epoch === holding.epoch) holding.fenced();
      if ((error as { code?: string }).code === TAKES_NO_WRITES) storeClient(this.#client)?.refusedWrite();
      if (isSilence(error)) storeClient(this.#client)?.fellSilent();
      // Kysely has ended the wait; it would print what comes after.
      if (isForgotten()) return { rows: [] };
      throw outage.failed(error, turn);
    }
  }

  async #sendPrepared<Row>(
    text: string,
    values: readonly unknown[],
    name: string | undefined,
  ): Promise<QueryResult<Row>> {
    try {
      return await this.#send(text, values, name);
    } catch (error) {
      const { code, message } = error as { code?: string; message?: string };
      if (name === undefined || code !== RESULT_CHANGED.code || message !== RESULT_CHANGED.message) throw error;
      // The server refuses before it runs anything. The connection knows more statements of this kind.
      this.#isOutdated = true;
      if (this.#isInTransaction) throw error;
      return this.#send(text, values, undefined);
    }
  }

  async #send<Row>(text: string, values: readonly unknown[], name: string | undefined): Promise<QueryResult<Row>> {
    const { command, rowCount, rows } = await this.#client.query({
      text,
      values: values as unknown[],
      ...(name !== undefined && { name }),
      ...(this.#isLong && { query_timeout: LONG_ANSWER_MS }),
    });
    if (command === "ROLLBACK" || command === "COMMIT") return { rows: [{ command } as Row] };
    const isWrite = command === "INSERT" || command === "UPDATE" || command === "DELETE" || command === "MERGE";
    return { rows: (rows ?? []) as Row[], ...(isWrite && { numAffectedRows: BigInt(rowCount ?? 0) }) };
  }

  /** Ends the statement that runs, over another connection. */
  async cancelQuery(): Promise<void> {
    const { pool, answerMs } = this.#shared;
    const asked = this.#running;
    const running = storeClient(this.#client);
    if (asked === undefined || running === undefined) return;
    // `password` can not be enumerated. On another server the number is that of another process.
    const client = new StoreClient({ ...pool.options, password: pool.options.password, at: running.place });
    try {
      await client.connect();
      if (this.#running === asked) await ask(client, "SELECT pg_cancel_backend($1)", [running.serverProcess], answerMs);
    } finally {
      client.end().catch(() => undefined);
    }
  }

  // biome-ignore lint/correctness/useYield: part of the interface; the store reads no results in parts.
  async *streamQuery(): AsyncGenerator<never> {
    throw new Error("the store reads no results in parts: read pages");
  }

  /** Its transaction could not be ended: the connection is closed when it is given back. */
  markBroken(): void {
    this.#isBroken = true;
  }

  release(): void {
    // The pool learns a moment later that a socket has ended, and would hand the connection to the next request that waits for one.
    this.#client.release(this.#isBroken || this.#isOutdated || !socketOf(this.#client).writable);
  }
}
