import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "../context.ts";
import { IMAGE_KINDS } from "./image.ts";

/** Name of the setting that holds it. */
const SETTING = "router-data-model";
/** Setting of the change log: the newest transaction whose rows were pruned. */
const PRUNED = "change-log-pruned";

/** The state up to which routers may know the network. `index` counts transactions; `snapshot` is the database's up to which they are counted. */
export interface Position {
  readonly timeline: string;
  readonly index: bigint;
  readonly snapshot: string;
  /** Fingerprint of the parts of the model that change without a row of the log. */
  readonly unlogged: string;
}

/** The position for this fingerprint of what routers are told outside the log: one more when it differs from what they were told. */
export function withUnlogged(position: Position, unlogged: string): Position {
  if (position.unlogged === unlogged) return position;
  return { ...position, index: position.index + 1n, unlogged };
}

/** Another process has moved the stored position: what this process knows of it is out of date. */
export class PositionTakenError extends Error {
  override name = "PositionTakenError";
}

/** The stored position, as it has to stand when it is moved on. */
export type StoredPosition = Pick<Position, "timeline" | "index"> | undefined;

/**
 * The position now, counted on from the stored one: one for each transaction of the change log since that concerns routers, and one for any number that were
 * pruned unseen. So an index that was ever given out always stands for everything up to it. Call it in a transaction that shows one snapshot.
 */
export async function advancePosition(db: Db): Promise<{ readonly stored: StoredPosition; readonly now: Position }> {
  const { rows } = await sql<{
    snapshot: string;
    stored: { timeline: string; index: string; snapshot: string; unlogged?: string } | null;
  }>`
    SELECT pg_current_snapshot()::text AS snapshot, (SELECT value FROM setting WHERE name = ${SETTING}) AS stored`.execute(
    db,
  );
  const [row] = rows;
  if (row === undefined) throw new Error("the database did not tell its snapshot");
  const { stored, snapshot } = row;
  if (stored === null) {
    return { stored: undefined, now: { timeline: randomUUID(), index: 0n, snapshot, unlogged: "" } };
  }
  const since = stored.snapshot;
  const counted = await sql<{ count: string; pruned: boolean }>`
    SELECT (SELECT count(DISTINCT xid) FROM change_log WHERE kind = ANY (${IMAGE_KINDS}::text[])
        AND xid >= pg_snapshot_xmin(${since}::pg_snapshot) AND NOT pg_visible_in_snapshot(xid, ${since}::pg_snapshot)) AS count,
      coalesce((SELECT (value #>> '{}')::xid8 >= pg_snapshot_xmin(${since}::pg_snapshot)
        FROM setting WHERE name = ${PRUNED}), false) AS pruned`.execute(db);
  const { count = "0", pruned = true } = counted.rows[0] ?? {};
  const former = BigInt(stored.index);
  const index = former + BigInt(count) + (pruned ? 1n : 0n);
  return {
    stored: { timeline: stored.timeline, index: former },
    now: { timeline: stored.timeline, index, snapshot, unlogged: stored.unlogged ?? "" },
  };
}

/** Has to succeed before a router learns the index. @throws PositionTakenError when the stored position is not `stored` any more */
export async function storePosition(db: Db, position: Position, stored: StoredPosition): Promise<void> {
  const value = JSON.stringify({ ...position, index: position.index.toString() });
  const { numAffectedRows } =
    stored === undefined
      ? await sql`INSERT INTO setting (name, value) VALUES (${SETTING}, ${value}::jsonb) ON CONFLICT DO NOTHING`.execute(
          db,
        )
      : await sql`UPDATE setting SET value = ${value}::jsonb WHERE name = ${SETTING}
          AND value->>'timeline' = ${stored.timeline} AND value->>'index' = ${stored.index.toString()}`.execute(db);
  if (numAffectedRows === 1n) return;
  throw new PositionTakenError(
    `the position of the router data model is not ${stored?.index ?? "unset"} of timeline ${stored?.timeline ?? ""} any more: something else writes it, or the database was replaced`,
  );
}

/** The stored position; undefined before the first. */
export async function readPosition(db: Db): Promise<Position | undefined> {
  const { rows } = await sql<{ stored: { timeline: string; index: string; snapshot: string; unlogged?: string } }>`
    SELECT value AS stored FROM setting WHERE name = ${SETTING}`.execute(db);
  const [row] = rows;
  if (row === undefined) return undefined;
  const { timeline, index, snapshot, unlogged = "" } = row.stored;
  return { timeline, index: BigInt(index), snapshot, unlogged };
}

/** Is all that the snapshot `one` shows visible in `other`, too? Both are texts of `pg_snapshot`: the oldest running, the next, and the running transactions. */
export function isWithin(one: string, other: string): boolean {
  const [, oneEnd, oneRunning] = partsOf(one);
  const [, otherEnd, otherRunning] = partsOf(other);
  if (oneEnd > otherEnd) return false;
  return [...otherRunning].every((xid) => xid >= oneEnd || oneRunning.has(xid));
}

function partsOf(snapshot: string): [bigint, bigint, ReadonlySet<bigint>] {
  const [start = "0", end = "0", running = ""] = snapshot.split(":");
  return [BigInt(start), BigInt(end), new Set(running === "" ? [] : running.split(",").map(BigInt))];
}
