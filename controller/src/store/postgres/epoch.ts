import type pg from "pg";
import { ANSWER_MS, ask } from "./store-client.ts";
import { isSilence } from "./store-error.ts";

/** SQLSTATE with which the server refuses a write under an epoch that is over. */
export const EPOCH_OVER = "SP001";
/** Key of an advisory lock, in two halves. Write transactions take it shared, the start of an epoch takes it exclusively. */
const FENCE = [0x5a11_0003, 1];
/** Longer than any statement of a request may run, and longer than the server keeps an idle transaction open. */
const MAX_WAIT = "90s";
/** For the answer to a statement that waits so long, or that writes; times the wait for a short one. A commit waits for a standby, too. */
const LONG = 20;

/** The current epoch, and the controller that began it. */
export interface Epoch {
  readonly epoch: string;
  /** The name that the controller gave itself. */
  readonly holder: string;
  readonly beganAt: Date;
  /** Did the epoch begin on this server and on its present timeline? False after a restore, a move to another server, or a failover. */
  readonly isSameServer: boolean;
}

/** Reads the current epoch; undefined if none ever began. Rejects if the server does not answer a query within `answerMs`. */
export async function currentEpoch(client: pg.ClientBase, answerMs = ANSWER_MS): Promise<Epoch | undefined> {
  const timeline = await walTimeline(client, answerMs);
  const rows = await ask<Epoch & pg.QueryResultRow>(
    client,
    `SELECT epoch, holder, began_at AS "beganAt",
       xmin::text::bigint = (xid::text::numeric % 4294967296)::bigint AND wal_timeline = $1 AS "isSameServer"
     FROM controller_epoch`,
    [timeline],
    answerMs,
  );
  return rows[0];
}

/**
 * Begins the epoch `epoch` (a new UUID) and so ends the one before. Waits first until the write transactions of that one have ended.
 *
 * After a restore, a move to another server, or a failover, the numbers of transactions in the database are not valid. Then the database begins a new life:
 * this function empties the change log and removes the position and the timeline of the router data model. Source: docs/protocol/store.md, "A new life".
 *
 * @returns whether a new life began
 * @throws Error when the server does not answer in time. The connection must be ended then, and whether the epoch began is not known.
 */
export async function beginEpoch(
  client: pg.ClientBase,
  holder: string,
  epoch: string,
  answerMs = ANSWER_MS,
): Promise<boolean> {
  const longMs = LONG * answerMs;
  const timeline = await walTimeline(client, answerMs);
  const run = (text: string, values: unknown[] = [], ms = answerMs) => ask(client, text, values, ms);
  await run("BEGIN");
  try {
    await run(`SET LOCAL lock_timeout = '${MAX_WAIT}'`);
    await run("SELECT pg_advisory_xact_lock($1, $2)", FENCE, longMs);
    const isNewLife = (await currentEpoch(client, answerMs))?.isSameServer !== true;
    if (isNewLife) {
      await run("DELETE FROM change_log", [], longMs);
      await run("DELETE FROM model_change", [], longMs);
      await run(
        "DELETE FROM setting WHERE name IN ('change-log-pruned', 'router-data-model', 'instance-id')",
        [],
        longMs,
      );
    }
    await run(
      `INSERT INTO controller_epoch (epoch, holder, wal_timeline) VALUES ($1, $2, $3)
       ON CONFLICT (only_row) DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder, began_at = now(),
         xid = pg_current_xact_id(), wal_timeline = excluded.wal_timeline,
        life = CASE WHEN $4 THEN excluded.life ELSE controller_epoch.life END`,
      [epoch, holder, timeline, isNewLife],
      longMs,
    );
    await run("COMMIT", [], longMs);
    return isNewLife;
  } catch (error) {
    // A connection whose server is silent is ended by its owner.
    if (!isSilence(error)) await run("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** Reads the timeline of the server's write-ahead log. It changes when a standby takes over, and after a recovery to a point in time. */
async function walTimeline(client: pg.ClientBase, answerMs: number): Promise<string> {
  const text = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline";
  const rows = await ask<{ timeline: string }>(client, text, [], answerMs);
  return rows[0]?.timeline ?? "";
}
