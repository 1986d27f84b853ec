import { createHash } from "node:crypto";
import type { PostgresPool, PostgresPoolClient } from "kysely";
import type pg from "pg";
import { NotHeldError, type Outage } from "./outage.ts";
import { ask } from "./postgres/ask.ts";
import { LONG_ANSWER_MS, LONG_STATEMENTS } from "./postgres/connection-limits.ts";
import { EPOCH_OVER } from "./postgres/epoch.ts";
import type { HolderLock } from "./postgres/holder-lock.ts";
import { isForgotten } from "./request-signal.ts";

const MOST_STATEMENTS = 1_000;
const WRITES_LOG = /insert\s+into\s+"?change_log"?\b/i;
const BEGINS = /^\s*(begin|start transaction)\b/i;
/** Statements whose result nobody reads: they write the log only, or their author marked them with a comment. If one fails, the transaction fails. */
const UNANSWERED = /^\s*(insert\s+into\s+"?change_log"?\b(?![\s\S]*\breturning\b)|\/\* unanswered \*\/)/i;
const COMMITS = /^\s*commit\b/i;
const ROLLS_BACK = /^\s*rollback\b(?!\s+to\b)/i;

/** The right to work on the database ({@link HolderLock}). Without it nothing is read or written. */
export type Holding = Pick<HolderLock, "isHeld" | "epoch" | "fenced">;

const UNHELD: Holding = { isHeld: true, epoch: undefined, fenced: () => undefined };

export interface PreparingOptions {
  readonly outage: Outage;
  readonly onLogged: () => void;
  readonly holding?: Holding | undefined;
  /** How long the server may take to answer a short query. */
  readonly answerMs: number;
}

/** What is known of a statement's text. */
interface Statement {
  readonly name: string | undefined;
  readonly writesLog: boolean;
  readonly isUnanswered: boolean;
}

/**
 * Wraps `pool` for Kysely.
 *
 * - **Prepared statements.** Each connection prepares a statement once, under a name that is a hash of its text. PostgreSQL then parses each text once, which saves a
 *   third to a half of its work for short queries. After 1,000 distinct texts, new ones are not prepared, so that generated texts cost no memory.
 * - **Pipelining.** Within a transaction, a statement whose result nobody reads is sent together with the next one. If it fails, the server refuses the rest of
 *   the transaction. BEGIN is awaited: if it failed, the statements after it would take effect outside a transaction.
 * - **The right to work on the database.** While `holding` says that the lock is lost, no connection is handed out. Each connection names the epoch of `holding`.
 *   When the server refuses a statement of that epoch, `holding` is told.
 * - **Silent servers.** The pool bounds the wait for each answer. After {@link LONG_STATEMENTS} the statements of that transaction, and its commit, have as long as it says.
 * - **Outages.** The result of each connect and each query is reported to `outage`, which chooses the error that the caller gets.
 * - **Change log.** `onLogged` is called when new rows of the change log may be visible: after a statement that writes some, or after the end of its transaction.
 */
export function preparing(
  pool: pg.Pool,
  { outage, onLogged, holding = UNHELD, answerMs }: PreparingOptions,
): PostgresPool {
  const known = new Map<string, Statement>();
  const statementOf = (text: string): Statement => {
    const found = known.get(text);
    if (found !== undefined) return found;
    const facts = { writesLog: WRITES_LOG.test(text), isUnanswered: UNANSWERED.test(text) };
    if (known.size >= MOST_STATEMENTS) return { name: undefined, ...facts };
    const made = { name: createHash("sha256").update(text).digest("base64url").slice(0, 22), ...facts };
    known.set(text, made);
    return made;
  };
  const clients = new WeakMap<pg.PoolClient, PostgresPoolClient>();
  const epochs = new WeakMap<pg.PoolClient, string>();
  const wrap = (client: pg.PoolClient): PostgresPoolClient => {
    const run = client.query.bind(client) as (...args: unknown[]) => Promise<never>;
    let isInTransaction = false;
    /** Its transaction has {@link LONG_STATEMENTS}. */
    let isLong = false;
    let hasLogged = false;
    let unanswered: Promise<unknown>[] = [];
    const send = (text: unknown, values: unknown, name: string | undefined) =>
      typeof text !== "string"
        ? run(text, values)
        : run({
            text,
            ...(Array.isArray(values) && { values }),
            ...(name !== undefined && { name }),
            ...(isLong && { query_timeout: LONG_ANSWER_MS }),
          });
    /** Sends a statement whose result nobody reads. The next statement on the connection waits for it. */
    const sendAhead = (text: string, values: readonly unknown[], name: string | undefined) => {
      const answer = send(text, values, name);
      answer.catch(() => undefined);
      unanswered.push(answer);
      return { command: "", rowCount: 0, rows: [] };
    };
    const query = async (text: unknown, values?: unknown) => {
      const isPlain = typeof text === "string" && Array.isArray(values);
      const statement = isPlain ? statementOf(text) : undefined;
      const isBegin = isPlain && BEGINS.test(text);
      if (isBegin) isInTransaction = true;
      else if (isPlain && ROLLS_BACK.test(text)) isInTransaction = false;
      isLong = isInTransaction && !isBegin && (isLong || text === LONG_STATEMENTS);
      // A commit runs what was deferred to it, so it has as long as the statements before it.
      if (isPlain && COMMITS.test(text)) isInTransaction = false;
      if (statement?.writesLog) hasLogged = true;
      const name = isPlain && values.length > 0 ? statement?.name : undefined;
      if (isPlain && isInTransaction && !isBegin && statement?.isUnanswered) return sendAhead(text, values, name);
      const ahead = unanswered;
      unanswered = [];
      try {
        const answer = send(text, values, name);
        if (ahead.length === 0) return await answer;
        answer.catch(() => undefined);
        // What failed first is the reason; the server refuses, or rolls back, all that follows in the transaction.
        for (const earlier of ahead) await earlier;
        return await answer;
      } catch (error) {
        const isRefused = (error as { code?: string }).code === EPOCH_OVER;
        // A connection in a transaction may still name an epoch before ours.
        if (isRefused && epochs.get(client) === holding.epoch) holding.fenced();
        // Kysely has ended the wait; it would print what comes after.
        if (isForgotten()) return { command: "SELECT", rowCount: 0, rows: [] };
        throw outage.failed(error);
      } finally {
        // Also after an error: whether a commit whose answer was lost took effect is not known.
        if (hasLogged && !isInTransaction) {
          hasLogged = false;
          onLogged();
        }
      }
    };
    const { processID } = client as unknown as { processID?: number };
    return {
      query,
      processID,
      release: (destroy?: boolean) => client.release(destroy),
    } as unknown as PostgresPoolClient;
  };
  return {
    options: pool.options,
    async connect(): Promise<PostgresPoolClient> {
      if (!holding.isHeld) throw outage.failed(new NotHeldError());
      const client = await pool.connect().catch((error: unknown) => {
        throw outage.failed(error);
      });
      const { epoch } = holding;
      if (epoch !== undefined && epochs.get(client) !== epoch) {
        try {
          await ask(client, "SELECT set_config('sallyport.epoch', $1, false)", [epoch], answerMs);
          epochs.set(client, epoch);
        } catch (error) {
          client.release(true);
          throw outage.failed(error);
        }
      }
      outage.answered();
      const wrapped = clients.get(client) ?? wrap(client);
      clients.set(client, wrapped);
      return wrapped;
    },
    end: () => pool.end(),
  };
}
