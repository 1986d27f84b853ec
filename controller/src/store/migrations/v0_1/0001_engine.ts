import { sql } from "kysely";
import type { Migration } from "../../upgrade/migration.ts";

/** Tables of the engine itself: change log, sealed secrets, settings. */
export const engine: Migration = {
  id: "0001_engine",
  kind: "expands",
  async up(db) {
    await sql`CREATE EXTENSION IF NOT EXISTS pg_trgm`.execute(db);
    await sql`
      CREATE TABLE change_log (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
        at timestamptz NOT NULL DEFAULT clock_timestamp(),
        kind text COLLATE "C" NOT NULL,
        key text COLLATE "C" NOT NULL,
        op text COLLATE "C" NOT NULL CHECK (op IN ('create', 'update', 'delete')),
        before jsonb
      )`.execute(db);
    await sql`CREATE INDEX change_log_xid ON change_log (xid)`.execute(db);
    await sql`
      CREATE TABLE secret (
        name text COLLATE "C" PRIMARY KEY,
        box bytea NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now()
      )`.execute(db);
    await sql`CREATE TABLE setting (name text COLLATE "C" PRIMARY KEY, value jsonb NOT NULL)`.execute(db);
  },
};
