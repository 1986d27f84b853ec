import { sql } from "kysely";
import type { Migration } from "../../upgrade/migration.ts";

/** Indexes for what is asked of large networks. */
export const speed: Migration = {
  id: "0009_speed",
  kind: "expands",
  async up(db) {
    // Pages far from the first are found in the index alone, by name as by id; errors name the constraint, so it keeps its own.
    for (const table of ["identity", "service"]) {
      const constraint = sql.ref(`${table}_name_key`);
      await sql`ALTER TABLE ${sql.table(table)} DROP CONSTRAINT ${constraint}, ADD CONSTRAINT ${constraint} UNIQUE (name) INCLUDE (id)`.execute(
        db,
      );
    }
    await sql`CREATE INDEX identity_tags ON identity USING gin (tags jsonb_path_ops) WITH (fastupdate = off)`.execute(
      db,
    );
  },
};
