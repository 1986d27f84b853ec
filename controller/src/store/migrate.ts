import { type Kysely, sql } from "kysely";

/** One step of the schema. All that are missing run inside one transaction, together with the record that they were done. */
export interface Migration {
  /** Four digits and a name, for example `0002_entities`; applied in this order. */
  readonly id: string;
  up(db: Kysely<unknown>): Promise<void>;
}

/** The database and the program do not fit together. */
export class MigrationError extends Error {
  override name = "MigrationError";
}

const MIGRATION_LOCK = 0x5a11_0001;

/**
 * Brings the schema up to the newest of `migrations` and answers the ids that it applied. Several processes may call it at once: one does the work, the
 * others wait and find it done. Either all missing migrations are applied or none: after a failure the former program can still use the database.
 * @throws MigrationError when the list is out of order, or the database holds a migration of a newer program
 */
export async function migrate(db: Kysely<never>, migrations: readonly Migration[]): Promise<string[]> {
  const ids = migrations.map((m) => m.id);
  if (ids.some((id, i) => i > 0 && id <= (ids[i - 1] ?? ""))) {
    throw new MigrationError(`migrations must be listed in order of their ids, each once; found ${ids.join(", ")}`);
  }
  return db.connection().execute(async (connection) => {
    const session = connection as unknown as Kysely<{ schema_migration: { id: string; applied_at: Date } }>;
    // A migration may take its time, and so may the one that we wait for.
    const limits = await sql<Limits>`
      SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock`.execute(
      session,
    );
    await setLimits(session, { statement: "0", lock: "0" });
    await sql`SELECT pg_advisory_lock(${MIGRATION_LOCK})`.execute(session);
    try {
      await sql`CREATE TABLE IF NOT EXISTS schema_migration (
        id text COLLATE "C" PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`.execute(session);
      const done = new Set((await session.selectFrom("schema_migration").select("id").execute()).map((row) => row.id));
      const unknown = [...done].filter((id) => !ids.includes(id));
      if (unknown.length > 0) {
        throw new MigrationError(
          `the database has the migration ${unknown.join(", ")}, this program knows them up to ${ids.at(-1)}: ` +
            "it was used by a newer version; run that version, or restore a backup made before the upgrade",
        );
      }
      const missing = migrations.filter(({ id }) => !done.has(id));
      await session.transaction().execute(async (trx) => {
        for (const migration of missing) {
          await migration.up(trx as unknown as Kysely<unknown>);
          await sql`INSERT INTO schema_migration (id) VALUES (${migration.id})`.execute(trx);
        }
      });
      await release(session, limits.rows[0]);
      return missing.map(({ id }) => id);
    } catch (error) {
      // If that fails, too, the connection is lost, and the lock with it.
      await release(session, limits.rows[0]).catch(() => undefined);
      throw error;
    }
  });
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
