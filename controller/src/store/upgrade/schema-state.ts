import { type Kysely, sql } from "kysely";
import type pg from "pg";
import { DatabaseHeldError } from "../postgres/holder-lock.ts";
import { ask } from "../postgres/store-client.ts";
import { LEADER_LOCK_HOLDER, type LockHolder, REPLICA_PREFIX } from "../replicas/lease.ts";

/** What a database says of its schema. */
export interface SchemaState {
  /** Ids of the migrations that it has. */
  readonly applied: ReadonlySet<string>;
  /** Level of the oldest program that works on it. */
  readonly worksFrom: number;
}

/** A controller that works on the database. */
export interface WorkingController {
  /** Its id among replicas; undefined for one that works alone. */
  readonly replicaId: string | undefined;
  readonly name: string;
  /** 0 if it does not say. */
  readonly level: number;
  readonly version: string;
}

/** Older programs do not work on the database any more. */
export class SchemaTooNewError extends DatabaseHeldError {
  override name = "SchemaTooNewError";

  constructor(worksFrom: number, level: number) {
    super(
      "a newer version",
      "",
      `the database has the schema of a newer version: it works with programs of schema level ${worksFrom} or higher, and this program has level ${level}; ` +
        "run the newer version, or restore a backup that was made before the upgrade into an empty database",
    );
  }
}

type Db = Pick<Kysely<never>, "getExecutor">;

/** A database without our schema has none and takes every program. */
export async function readSchema(db: Db): Promise<SchemaState> {
  const run = db as Kysely<never>;
  const { rows: tables } = await sql<{ isThere: boolean }>`
    SELECT to_regclass('schema_migration') IS NOT NULL AS "isThere"`.execute(run);
  if (tables[0]?.isThere !== true) return { applied: new Set(), worksFrom: 0 };
  // Version 0.1.0 made the table without levels.
  const { rows } = await sql<{ id: string; worksFrom: number }>`
    SELECT id, coalesce((to_jsonb(m) ->> 'works_from')::int, 0) AS "worksFrom" FROM schema_migration m`.execute(run);
  return {
    applied: new Set(rows.map(({ id }) => id)),
    worksFrom: Math.max(0, ...rows.map(({ worksFrom }) => worksFrom)),
  };
}

/** Asks a database that has our schema. @throws SchemaTooNewError */
export async function requireLevel(client: pg.ClientBase, level: number, answerMs: number): Promise<void> {
  const text = "SELECT max(works_from) AS level FROM schema_migration";
  const [row] = await ask<{ level: number | null }>(client, text, undefined, answerMs);
  if ((row?.level ?? 0) > level) throw new SchemaTooNewError(row?.level ?? 0, level);
}

/** @throws SchemaTooNewError */
export function requireWorks({ worksFrom }: SchemaState, level: number): void {
  if (worksFrom > level) throw new SchemaTooNewError(worksFrom, level);
}

/**
 * The replicas that have a lease, or had one less than `quietMs` ago: one that stood still may not know yet that its lease ran out.
 */
export async function workingReplicas(db: Db, quietMs: number): Promise<WorkingController[]> {
  const run = db as Kysely<never>;
  if (!(await hasLeases(run))) return [];
  // The columns may come with the migrations that are to be applied.
  const { rows } = await sql<WorkingController>`
    SELECT replica_id AS "replicaId", name, coalesce((to_jsonb(l) ->> 'level')::int, 0) AS level,
      coalesce(to_jsonb(l) ->> 'version', '') AS version
    FROM replica_lease l WHERE until > clock_timestamp() - make_interval(secs => ${quietMs / 1_000}) ORDER BY replica_id`.execute(
    run,
  );
  return rows;
}

/**
 * Do the leases show every replica that works? Not for a while after a crash of the database or a failover, which empty the table: not before one of them has
 * been there for `quietMs`.
 */
export async function showsEveryReplica(db: Db, quietMs: number): Promise<boolean> {
  const run = db as Kysely<never>;
  if (!(await hasLeases(run))) return true;
  const { rows } = await sql`SELECT FROM replica_lease l WHERE until > clock_timestamp()
    AND (to_jsonb(l) ->> 'began_at')::timestamptz <= clock_timestamp() - make_interval(secs => ${quietMs / 1_000}) LIMIT 1`.execute(
    run,
  );
  return rows.length > 0;
}

async function hasLeases(db: Kysely<never>): Promise<boolean> {
  const { rows } = await sql<{ isThere: boolean }>`
    SELECT to_regclass('replica_lease') IS NOT NULL AS "isThere"`.execute(db);
  return rows[0]?.isThere === true;
}

/** The controller that works alone on the database, if one does: it holds the lock of the leader and is no replica. */
export async function soleController(db: Db): Promise<LockHolder | undefined> {
  const { rows } = await sql.raw<LockHolder>(LEADER_LOCK_HOLDER).execute(db as Kysely<never>);
  return rows.find(({ application }) => application?.startsWith(REPLICA_PREFIX) !== true);
}
