import { randomUUID } from "node:crypto";
import type pg from "pg";
import { ask } from "./ask.ts";

/** SQLSTATE of a write under an epoch that is over. */
export const EPOCH_OVER = "SP001";
/** Two halves of the key of the advisory lock: every write transaction of a controller shares it, who begins an epoch has it alone. */
const FENCE = [0x5a11_0003, 1];
/** Longer than any statement of a request, and than a transaction whose program forgot it. */
const LONGEST_WAIT = "90s";

/** Whose epoch runs. */
export interface Epoch {
  readonly epoch: string;
  /** How the controller names itself. */
  readonly holder: string;
  readonly beganAt: Date;
  /** Is this the server, and the course of its transactions, in which the epoch began? Not after a restore, a move to another server, or a failover. */
  readonly isSameServer: boolean;
}

/** The epoch that runs; undefined when none ever began. Rejects when the server does not answer a query for `answerMs`. */
export async function currentEpoch(client: pg.ClientBase, answerMs?: number): Promise<Epoch | undefined> {
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
 * Begins an epoch: waits for the write transactions of the one before, and ends it. Where numbers of transactions mean nothing any more, because the database
 * was restored or moved, or a standby took over, everything that names them begins anew: the change log, and the index and timeline of the router data model.
 * @returns the epoch
 */
export async function beginEpoch(
  client: pg.ClientBase,
  holder: string,
): Promise<{ epoch: string; isNewLife: boolean }> {
  const epoch = randomUUID();
  const timeline = await walTimeline(client);
  await client.query("BEGIN");
  try {
    await client.query(`SET LOCAL lock_timeout = '${LONGEST_WAIT}'`);
    await client.query("SELECT pg_advisory_xact_lock($1, $2)", FENCE);
    const isNewLife = (await currentEpoch(client))?.isSameServer !== true;
    if (isNewLife) {
      await client.query("DELETE FROM change_log");
      await client.query("DELETE FROM setting WHERE name IN ('change-log-pruned', 'router-data-model')");
    }
    await client.query(
      `INSERT INTO controller_epoch (epoch, holder, wal_timeline) VALUES ($1, $2, $3)
       ON CONFLICT (only_row) DO UPDATE SET epoch = excluded.epoch, holder = excluded.holder, began_at = now(),
         xid = pg_current_xact_id(), wal_timeline = excluded.wal_timeline`,
      [epoch, holder, timeline],
    );
    await client.query("COMMIT");
    return { epoch, isNewLife };
  } catch (error) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** The timeline of the server's log of writes: another one after a standby took over, or after a recovery to a point in time. */
async function walTimeline(client: pg.ClientBase, answerMs?: number): Promise<string> {
  const text = "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline";
  const rows = await ask<{ timeline: string }>(client, text, [], answerMs);
  return rows[0]?.timeline ?? "";
}
