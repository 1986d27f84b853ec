import { Backoff, pause } from "@sallyport/async";
import { type Logger, silentLogger } from "@sallyport/wire";
import { type Kysely, sql } from "kysely";
import { heldBy } from "../postgres/holder-lock.ts";
import { QUIET_MS, SCHEMA_LOCK } from "../replicas/lease.ts";
import { levelOf, type Migration } from "./migration.ts";
import {
  readSchema,
  requireWorks,
  type SchemaState,
  showsEveryReplica,
  soleController,
  type WorkingController,
  workingReplicas,
} from "./schema-state.ts";

/** The database and the program do not fit together. */
export class MigrationError extends Error {
  override name = "MigrationError";
}

/**
 * Who migrates: a controller that holds the database alone, one of several, or a command beside them. A command changes nothing under a controller that works.
 */
export type Migrator = "alone" | "replica" | "command";

export interface MigrateOptions {
  /** Default: alone. */
  readonly as?: Migrator;
  /** How long an older replica must have had no lease before what it needs is taken away; default {@link QUIET_MS}. */
  readonly quietMs?: number;
  /** Fail at once, instead of trying again, while others use what is to be changed. */
  readonly isImpatient?: boolean;
  readonly log?: Logger;
}

/** What {@link migrate} did. */
export interface Migrated {
  /** Ids of the migrations that it applied. */
  readonly applied: readonly string[];
  /** Contractions that have to wait, because older controllers still work, or because it is not known yet whether any does. */
  readonly postponed: readonly string[];
  /** The older controllers that are known. */
  readonly older: readonly WorkingController[];
}

/** Serializes those who migrate. */
const MIGRATION_LOCK = 0x5a11_0001;
/** How long a statement waits for a table: requests for the same one wait behind it. Longer than PostgreSQL takes to end an autovacuum that is in the way. */
const TABLE_WAIT = "2s";
/** Codes of PostgreSQL for a lock that was not given in time, and for a deadlock. */
const TRY_AGAIN: ReadonlySet<string | undefined> = new Set(["55P03", "40P01"]);

/** Another transaction must not see the schema change, for example a backup. */
class SchemaInUseError extends Error {
  override name = "SchemaInUseError";
}

/**
 * Brings the schema up to the newest of `migrations`. Several processes may call it at once: one does the work, the others wait and find it done. All that can
 * be applied is applied in one transaction, or nothing. It waits for tables that others use, but lets no request wait behind it for longer than two seconds.
 *
 * A contraction is left out while a controller works, or may work, that is too old for the schema that it leaves. Source: docs/protocol/replicas.md, "Upgrades".
 *
 * @throws MigrationError when the list is out of order, or a command needs a newer schema than that of the controllers which work; SchemaTooNewError;
 * DatabaseHeldError when a replica finds a controller that works alone
 */
export async function migrate(
  db: Kysely<never>,
  migrations: readonly Migration[],
  options: MigrateOptions = {},
): Promise<Migrated> {
  requireOrder(migrations);
  return db.connection().execute(async (connection) => {
    const session = connection as unknown as Session;
    const state = await readSchema(session);
    requireWorks(state, levelOf(migrations));
    if (missingIn(state, migrations).length === 0) return { applied: [], postponed: [], older: [] };
    // A migration may take its time, and so may the one that we wait for.
    const limits = await sql<Limits>`
      SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock`.execute(
      session,
    );
    await setLimits(session, { statement: "0", lock: "0" });
    await sql`SELECT pg_advisory_lock(${MIGRATION_LOCK})`.execute(session);
    try {
      await makeRecord(session);
      const work = () => apply(session, migrations, options);
      const done = await (options.isImpatient ? work() : whenFree(work, options.log ?? silentLogger));
      await release(session, limits.rows[0]);
      return done;
    } catch (error) {
      // If that fails, too, the connection is lost, and the lock with it.
      await release(session, limits.rows[0]).catch(() => undefined);
      throw error;
    }
  });
}

type Session = Kysely<{ schema_migration: { id: string; works_from: number } }>;

function requireOrder(migrations: readonly Migration[]): void {
  const ids = migrations.map(({ id }) => id);
  if (ids.some((id, i) => i > 0 && id <= (ids[i - 1] ?? ""))) {
    throw new MigrationError(`migrations must be listed in order of their ids, each once; found ${ids.join(", ")}`);
  }
}

function missingIn({ applied }: SchemaState, migrations: readonly Migration[]): Migration[] {
  return migrations.filter(({ id }) => !applied.has(id));
}

/** The table of what was applied. It is not changed under replicas that work: they read it with each renewal of their leases. */
async function makeRecord(session: Session): Promise<void> {
  await sql`CREATE TABLE IF NOT EXISTS schema_migration (
    id text COLLATE "C" PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now(), works_from integer NOT NULL DEFAULT 0)`.execute(
    session,
  );
  const { rows } = await sql`SELECT FROM pg_attribute
    WHERE attrelid = 'schema_migration'::regclass AND attname = 'works_from'`.execute(session);
  if (rows.length > 0) return;
  await sql`ALTER TABLE schema_migration ADD COLUMN works_from integer NOT NULL DEFAULT 0`.execute(session);
}

async function apply(
  session: Session,
  migrations: readonly Migration[],
  { as = "alone", quietMs = QUIET_MS }: MigrateOptions,
): Promise<Migrated> {
  return session.transaction().execute(async (trx) => {
    const { rows: locks } = await sql<{ isOurs: boolean }>`
      SELECT pg_try_advisory_xact_lock(${SCHEMA_LOCK[0]}, ${SCHEMA_LOCK[1]}) AS "isOurs"`.execute(trx);
    if (locks[0]?.isOurs !== true) throw new SchemaInUseError("a backup is made, or a controller joins the others");
    await sql`SELECT set_config('lock_timeout', ${TABLE_WAIT}, true)`.execute(trx);
    const state = await readSchema(trx);
    requireWorks(state, levelOf(migrations));
    const missing = missingIn(state, migrations);
    const sole = as === "alone" ? undefined : await soleController(trx);
    if (as === "replica" && sole !== undefined) throw heldBy(sole);
    const working = await workingReplicas(trx, quietMs);
    if (sole !== undefined) {
      working.push({ replicaId: undefined, name: sole.application ?? "another program", level: 0, version: "" });
    }
    if (as === "command" && working.length > 0) {
      requireNoExpansion(missing, working);
      return { applied: [], postponed: missing.map(({ id }) => id), older: [] };
    }
    const isShown = as === "alone" || (await showsEveryReplica(trx, quietMs));
    const isPostponed = (migration: Migration) =>
      migration.kind === "contracts" && (!isShown || working.some(({ level }) => level < migration.worksFrom));
    const due = missing.filter((migration) => !isPostponed(migration));
    for (const migration of due) {
      await migration.up(trx as unknown as Kysely<unknown>);
      await trx
        .insertInto("schema_migration")
        .values({ id: migration.id, works_from: migration.kind === "contracts" ? migration.worksFrom : 0 })
        .execute();
    }
    const postponed = missing.filter(isPostponed);
    const neededLevel = Math.max(0, ...postponed.map((each) => (each.kind === "contracts" ? each.worksFrom : 0)));
    return {
      applied: due.map(({ id }) => id),
      postponed: postponed.map(({ id }) => id),
      older: working.filter(({ level }) => level < neededLevel),
    };
  });
}

function requireNoExpansion(missing: readonly Migration[], working: readonly WorkingController[]): void {
  const needed = missing.filter(({ kind }) => kind === "expands");
  if (needed.length === 0) return;
  throw new MigrationError(
    `this program is newer than the controllers that work on the database (${working.map(nameOf).join("; ")}): it needs the schema changes ` +
      `${needed.map(({ id }) => id).join(", ")}; run the command of their version, or upgrade one of them first`,
  );
}

/** A controller as a person looks for it. */
export function nameOf({ replicaId, name, version }: WorkingController): string {
  const who = replicaId === undefined ? name : `${replicaId}: ${name}`;
  return version === "" ? who : `${who}, version ${version}`;
}

/** Repeats `work` until it is not held up by others. */
async function whenFree<T>(work: () => Promise<T>, log: Logger): Promise<T> {
  const backoff = new Backoff({ firstMs: 200, maxMs: 5_000 });
  for (let isTold = false; ; isTold = true) {
    try {
      return await work();
    } catch (error) {
      const isHeldUp = error instanceof SchemaInUseError || TRY_AGAIN.has((error as { code?: string }).code);
      if (!isHeldUp) throw error;
      const fields = { error: (error as Error).message };
      if (!isTold) log.warn(fields, "the schema cannot be upgraded yet, because others use the database; trying again");
      await pause(backoff.next());
    }
  }
}

interface Limits {
  readonly statement: string;
  readonly lock: string;
}

async function release(session: Pick<Kysely<unknown>, "getExecutor">, limits: Limits | undefined): Promise<void> {
  await sql`SELECT pg_advisory_unlock(${MIGRATION_LOCK})`.execute(session as Kysely<unknown>);
  if (limits) await setLimits(session, limits);
}

async function setLimits(session: Pick<Kysely<unknown>, "getExecutor">, limits: Limits): Promise<void> {
  await sql`SELECT set_config('statement_timeout', ${limits.statement}, false), set_config('lock_timeout', ${limits.lock}, false)`.execute(
    session as Kysely<unknown>,
  );
}
