import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/** The lease of a process says which schema its program was made for, and which version it is (docs/protocol/replicas.md, "Upgrades"). */
export const schemaLevels: Migration = {
  id: "0043_schema_levels",
  kind: "expands",
  async up(db) {
    // A program that writes no level knows nothing of them.
    await sql`ALTER TABLE replica_lease ADD COLUMN level integer NOT NULL DEFAULT 0, ADD COLUMN version text NOT NULL DEFAULT ''`.execute(
      db,
    );
  },
};
