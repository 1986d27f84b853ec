import { createHash } from "node:crypto";
import type { PostgresPool, PostgresPoolClient } from "kysely";
import type pg from "pg";
import { NotHeldError, type Outage } from "./outage.ts";
import { EPOCH_OVER } from "./postgres/epoch.ts";
import type { HolderLock } from "./postgres/holder-lock.ts";
import { isForgotten } from "./request-signal.ts";

const MOST_STATEMENTS = 1_000;
const WRITES_LOG = /insert\s+into\s+"?change_log"?\b/i;
const BEGINS = /^\s*(begin|start transaction)\b/i;
/** What only writes the log, and what its writer has marked by a comment: nobody looks at the answer, and a failure ends the transaction all the same. */
const UNANSWERED = /^\s*(insert\s+into\s+"?change_log"?\b(?![\s\S]*\breturning\b)|\/\* unanswered \*\/)/i;
const ENDS = /^\s*(commit|rollback)\b(?!\s+to\b)/i;

/** The right to work on the database ({@link HolderLock}): without it nothing is asked, and nothing written. */
export type Holding = Pick<HolderLock, "isHeld" | "epoch" | "fenced">;

const UNHELD: Holding = { isHeld: true, epoch: undefined, fenced: () => undefined };

/** What is known of a statement's text. */
interface Statement {
  readonly name: string | undefined;
  readonly writesLog: boolean;
  readonly isUnanswered: boolean;
}

/**
 * A pool for Kysely whose queries are prepared once per connection, under a name made from their text: PostgreSQL then parses each text once, which
 * saves a third to a half of its work for short queries. Past 1,000 distinct texts further ones go unprepared, so that generated texts cost no memory.
 *
 * Within a transaction, a statement whose answer nobody looks at goes out together with the next one (the pool's connections are in pipeline mode): when
 * it fails, the server refuses what follows. A transaction's beginning is waited for: were it to fail, what follows would take effect by itself. Every connect and query is reported to `outage`, which
 * names what they fail with. Nothing is asked while the database is not held. `onLogged` is called when rows of the change log may have become visible: after a statement that writes some, or after the
 * end of the transaction with it.
 */
export function preparing(
  pool: pg.Pool,
  outage: Outage,
  onLogged: () => void,
  holding: Holding = UNHELD,
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
    let hasLogged = false;
    let unanswered: Promise<unknown>[] = [];
    const send = (text: unknown, values: unknown, name: string | undefined) =>
      name === undefined ? run(text, values) : run({ name, text, values });
    /** Sends a statement whose answer tells nothing but that it worked; whatever comes next on the connection waits for it. */
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
      else if (isPlain && ENDS.test(text)) isInTransaction = false;
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
          await client.query("SELECT set_config('sallyport.epoch', $1, false)", [epoch]);
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
