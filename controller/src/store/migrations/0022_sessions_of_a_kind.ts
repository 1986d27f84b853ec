import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/** The oldest session of an identity for a service is found in the index alone; queries by identity use it, too. */
export const sessionsOfAKind: Migration = {
  id: "0022_sessions_of_a_kind",
  kind: "expands",
  async up(db) {
    await sql`CREATE INDEX session_identity_service ON session (identity_id, service_id, type, id)`.execute(db);
    await sql`DROP INDEX session_identity`.execute(db);
  },
};
