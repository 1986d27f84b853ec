/**
 * Failed attempts in the store, where every controller of the network sees them (docs/protocol/authentication.md, "Limits"). Only failures are written, each
 * after the work of checking a password or a code: an unauthenticated client causes no more writes than checks. No index but the primary key, so that counting again is cheap.
 */
import { type Executor, Statement } from "../../store/driver/statement.ts";

const DAY_MS = 86_400_000;
/** How long failures in a row are remembered after the last of them. */
export const REMEMBERED_MS = 30 * DAY_MS;

/** Something that a failure counts for. */
export interface Counted {
  readonly key: string;
  /** How much later each failure lets the next attempt come: the time in which a rate gives one attempt back. */
  readonly pauseMs: number;
  /** The longest time that pauses add up to, and for which the row is kept after the last failure. */
  readonly keptMs: number;
}

/** A rate of failures: another attempt has to wait while the pauses reach further than `roomMs` into the future. */
export interface CountedRate extends Counted {
  readonly roomMs: number;
}

/** Milliseconds to wait for the rates whose keys and rooms are two parameters; null for none. */
export function waitSql(keys: string, rooms: string): string {
  return `(SELECT max(extract(epoch FROM f.until - now()) * 1000 - g.room)::float8
    FROM unnest(${keys}::text[], ${rooms}::float8[]) AS g (key, room) JOIN failed_attempt f ON f.key = g.key)`;
}

const WAIT = new Statement<{ wait: number | null }>(`SELECT ${waitSql("$1", "$2")} AS wait`);

/** In the order of keys: two that count for the same at once do not wait for each other in a circle. */
const COUNT = new Statement<{ key: string; count: number }>(`
  INSERT INTO failed_attempt AS f (key, count, until, expires_at)
  SELECT key, 1, now() + pause * interval '1 millisecond', now() + kept * interval '1 millisecond'
  FROM unnest($1::text[], $2::float8[], $3::float8[]) AS n (key, pause, kept) ORDER BY key
  ON CONFLICT (key) DO UPDATE SET count = f.count + 1, expires_at = excluded.expires_at,
    until = least(greatest(f.until, now()) + (excluded.until - now()), excluded.expires_at)
  RETURNING key, count`);
const PUT = new Statement<never>(`
  INSERT INTO failed_attempt (key, count, until, expires_at) VALUES ($1, $2, $3, $4)
  ON CONFLICT (key) DO UPDATE SET count = excluded.count, until = excluded.until, expires_at = excluded.expires_at`);
const FIND = new Statement<{ count: number; until: Date }>("SELECT count, until FROM failed_attempt WHERE key = $1");
const FORGET = new Statement<never>("DELETE FROM failed_attempt WHERE key = $1");

/** Milliseconds until another attempt may come; 0 when it may come at once. */
export async function waitFor(db: Executor, rates: readonly CountedRate[]): Promise<number> {
  if (rates.length === 0) return 0;
  const row = await WAIT.first(db, [rates.map(({ key }) => key), rates.map(({ roomMs }) => roomMs)]);
  return Math.max(0, row?.wait ?? 0);
}

/** Counts one failure for each of them, outside of a transaction. @returns how many there are now, by key */
export async function countFailure(db: Executor, counted: readonly Counted[]): Promise<ReadonlyMap<string, number>> {
  if (counted.length === 0) return new Map();
  const rows = await COUNT.rows(db, [
    counted.map(({ key }) => key),
    counted.map(({ pauseMs }) => pauseMs),
    counted.map(({ keptMs }) => keptMs),
  ]);
  return new Map(rows.map(({ key, count }) => [key, count]));
}

export interface FailuresInARow {
  readonly count: number;
  /** The controllers check nothing before this moment. */
  readonly until: Date;
}

export function failuresInARow(db: Executor, key: string): Promise<FailuresInARow | undefined> {
  return FIND.first(db, [key]);
}

export async function putFailures(db: Executor, key: string, { count, until }: FailuresInARow): Promise<void> {
  await PUT.rows(db, [key, count, until, new Date(until.getTime() + REMEMBERED_MS)]);
}

export async function forgetFailures(db: Executor, key: string): Promise<void> {
  await FORGET.rows(db, [key]);
}
