import { sql } from "kysely";
import type { Migration } from "../../upgrade/migration.ts";

/** Identities keep the type that they were made with. */
export const identityTypes: Migration = {
  id: "0010_identity_types",
  kind: "expands",
  async up(db) {
    await sql`ALTER TABLE identity DROP CONSTRAINT identity_type_id_check,
      ADD CONSTRAINT identity_type_id_check
        CHECK (type_id IN ('Default', 'Device', 'Router', 'Service', 'User'))`.execute(db);
  },
};
