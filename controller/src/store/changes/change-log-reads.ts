/** Statements over the change log: what changed since a snapshot, and the removal of old rows. */

import { type Kysely, sql } from "kysely";
import { Statement } from "../driver/statement.ts";
import type { EngineTables } from "../schema.ts";
import { unpacked } from "./packed-changes.ts";

export type ChangeOp = "create" | "update" | "delete";

/** A committed change as readers get it. */
export interface ChangeRow {
  /** Text of a 64-bit number; rows are given in this order. Several changes may have the same. */
  seq: string;
  /** The writing transaction, text of an unsigned 64-bit number. */
  xid: string;
  at: Date;
  kind: string;
  key: string;
  op: ChangeOp;
  before: Record<string, unknown> | null;
}

/** What changed between two snapshots of the database. */
export interface ChangesRead {
  /** Where the next read goes on. */
  snapshot: string;
  rows: readonly ChangeRow[];
  /** True when rows are missing, because they were pruned or are too many: a subscriber that mirrors the database must load it again. */
  reset: boolean;
  /** The life of the database; empty before the first. A snapshot of another life means nothing. */
  life: string;
  /** Is the server the one on which that life began? */
  isSameServer: boolean;
}

export type Queryable = Pick<Kysely<EngineTables>, "getExecutor">;

/** Name of the setting that holds the newest transaction whose rows were pruned. */
const PRUNED = "change-log-pruned";
const MAX_ROWS = 20_000;
/** Changes that are handed out at once: rows may stand for several. */
const MAX_CHANGES = 100_000;
export const PRUNE_BATCH = 5_000;

/** The present snapshot of the database, from which {@link readChanges} can go on. */
export async function currentSnapshot(db: Queryable): Promise<string> {
  return (await readNothing(db)).snapshot;
}

interface Present {
  snapshot: string;
  life: string | null;
  is_same_server: boolean | null;
}

/** Where the database stands: docs/protocol/store.md, "A new life". */
const PRESENT = `pg_current_snapshot()::text AS snapshot, (SELECT life FROM controller_epoch) AS life,
      (SELECT wal_timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM controller_epoch) AS is_same_server`;
const READ_NOTHING = new Statement<Present>(`SELECT ${PRESENT}`);

interface LogRead extends Present {
  pruned: boolean;
  rows: (Omit<ChangeRow, "at"> & { at: string; place: number })[] | null;
}

const logReads = new Map<number, Statement<LogRead>>();

/**
 * The read of at most so many rows. The newest transactions are found by the index of transactions: a plan that is made before the parameters are known,
 * or before the table was analysed, goes there only because the range has two ends and asks for no order.
 */
function readLog(maxRows: number): Statement<LogRead> {
  const known = logReads.get(maxRows);
  if (known !== undefined) return known;
  const made = new Statement<LogRead>(`
    SELECT ${PRESENT},
      coalesce((SELECT (value #>> '{}')::xid8 >= pg_snapshot_xmin($1::text::pg_snapshot)
        FROM setting WHERE name = $2), false) AS pruned,
      (SELECT json_agg(r ORDER BY r.place) FROM (
        SELECT seq::text AS seq, seq AS place, xid::text AS xid, at, kind, key, op, before FROM change_log
        WHERE xid >= pg_snapshot_xmin($1::text::pg_snapshot) AND xid < pg_snapshot_xmax(pg_current_snapshot())
          AND NOT pg_visible_in_snapshot(xid, $1::text::pg_snapshot)
        LIMIT ${maxRows + 1}) r) AS rows`);
  logReads.set(maxRows, made);
  return made;
}

/**
 * Every change that became visible after the snapshot `since`, each exactly once, whatever order transactions commit in. "Sequence greater than the last one"
 * would lose the rows of a transaction that took its number early and committed late, so visibility decides: this statement shows the transaction, `since`
 * does not.
 */
export async function readChanges(db: Queryable, since: string, maxRows = MAX_ROWS): Promise<ChangesRead> {
  const row = await readLog(maxRows).first(db as Kysely<EngineTables>, [since, PRUNED]);
  if (!row) throw new Error("the change log could not be read: expected one row, found none");
  const found = row.rows ?? [];
  const lost = { ...presentOf(row), rows: [], reset: true };
  if (row.pruned || found.length > maxRows) return lost;
  const changes = found.map(({ place: _, at, ...change }) => ({ ...change, at: new Date(at) }));
  const rows = unpacked(changes, MAX_CHANGES);
  return rows === undefined ? lost : { ...presentOf(row), rows, reset: false };
}

function presentOf({ snapshot, life, is_same_server }: Present) {
  return { snapshot, life: life ?? "", isSameServer: is_same_server ?? true };
}

/**
 * Removes changes older than `maxAgeSeconds`, in batches, oldest first. Answers how many. Rows of transactions that `read` (the snapshot up to which the log
 * was handed out; default: now) may not show stay: a transaction may write its row long before it commits, and a reader must not lose it.
 */
export async function pruneChanges(
  db: Queryable,
  maxAgeSeconds: number,
  batch = PRUNE_BATCH,
  read?: string,
): Promise<number> {
  const horizon = read ?? (await currentSnapshot(db));
  let total = 0;
  for (;;) {
    const { rows } = await sql<{ removed: number }>`
      WITH gone AS (
        DELETE FROM change_log WHERE seq IN (
          SELECT seq FROM (SELECT seq, at, xid FROM change_log ORDER BY seq LIMIT ${batch}) oldest
          WHERE at < now() - make_interval(secs => ${maxAgeSeconds}) AND xid < pg_snapshot_xmin(${horizon}::pg_snapshot))
        RETURNING xid),
      mark AS (
        INSERT INTO setting (name, value) SELECT ${PRUNED}, to_jsonb(max(xid)::text) FROM gone HAVING count(*) > 0
        ON CONFLICT (name) DO UPDATE
          SET value = to_jsonb(greatest((setting.value #>> '{}')::xid8, (excluded.value #>> '{}')::xid8)::text))
      SELECT count(*)::int AS removed FROM gone
    `.execute(db as Kysely<EngineTables>);
    const removed = rows[0]?.removed ?? 0;
    total += removed;
    if (removed < batch) return total;
  }
}

/** Where the database stands, and no rows. */
export async function readNothing(db: Queryable): Promise<ChangesRead> {
  const row = await READ_NOTHING.first(db as Kysely<EngineTables>, []);
  if (!row) throw new Error("the database did not tell its snapshot");
  return { ...presentOf(row), rows: [], reset: true };
}
