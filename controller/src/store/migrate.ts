import { type Kysely, sql } from "kysely";

/** One step of the schema. `up` runs inside one transaction together with the record that it was done. */
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
 * Brings the schema up to the newest of `migrations` and answers the ids that were applied now (empty when nothing was to do).
 * Several processes may call it at once: one does the work, the others wait and find it done.
 *
 * @throws MigrationError when the database holds a migration that this program does not know (it was made by a newer one),
 * or when the list is out of order.
 */
export async function migrate(db: Kysely<never>, migrations: readonly Migration[]): Promise<string[]> {
  const ids = migrations.map((m) => m.id);
  if (ids.some((id, i) => i > 0 && id <= (ids[i - 1] ?? ""))) {
    throw new MigrationError(`migrations must be listed in order of their ids, each once; found ${ids.join(", ")}`);
  }
  return db.connection().execute(async (connection) => {
    const session = connection as unknown as Kysely<{ schema_migration: { id: string; applied_at: Date } }>;
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
      const applied: string[] = [];
      for (const migration of migrations) {
        if (done.has(migration.id)) continue;
        await session.transaction().execute(async (trx) => {
          await migration.up(trx as unknown as Kysely<unknown>);
          await sql`INSERT INTO schema_migration (id) VALUES (${migration.id})`.execute(trx);
        });
        applied.push(migration.id);
      }
      return applied;
    } finally {
      await sql`SELECT pg_advisory_unlock(${MIGRATION_LOCK})`.execute(session);
    }
  });
}
