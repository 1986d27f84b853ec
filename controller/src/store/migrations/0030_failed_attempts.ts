import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/**
 * Failed attempts to prove a password or a one-time code, counted for all controllers of a network (docs/protocol/store.md). Unlogged: a crash of PostgreSQL
 * forgets them, as a restart of the controller did before. `until`: when the bucket of a rate is full again, or when the next attempt may come.
 */
export const failedAttempts: Migration = {
  id: "0030_failed_attempts",
  kind: "expands",
  async up(db) {
    await sql`CREATE UNLOGGED TABLE failed_attempt (
      key text COLLATE "C" PRIMARY KEY,
      count integer NOT NULL,
      until timestamptz NOT NULL,
      expires_at timestamptz NOT NULL
    ) WITH (fillfactor = 70)`.execute(db);
    await sql`CREATE TRIGGER require_epoch BEFORE INSERT OR UPDATE OR DELETE ON failed_attempt
      FOR EACH STATEMENT EXECUTE FUNCTION require_epoch()`.execute(db);
  },
};
