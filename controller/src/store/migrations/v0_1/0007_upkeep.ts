import { sql } from "kysely";
import type { Migration } from "../../upgrade/migration.ts";

/**
 * `fold_case(text)`: upper case beyond ASCII, for comparing without regard to case. PostgreSQL has a collation of its own for that from version 17 on; older
 * ones have those of ICU if they were built with it; without both only ASCII is folded.
 */
export const upkeep: Migration = {
  id: "0007_upkeep",
  kind: "expands",
  async up(db) {
    await sql`
      DO $do$
      DECLARE found text;
      BEGIN
        SELECT collname INTO found FROM pg_collation
          WHERE collname IN ('pg_c_utf8', 'und-x-icu') AND pg_catalog.pg_collation_is_visible(oid)
          ORDER BY collname = 'pg_c_utf8' DESC LIMIT 1;
        EXECUTE format(
          'CREATE FUNCTION fold_case(t text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN upper(t COLLATE %I)',
          coalesce(found, 'C'));
      END $do$`.execute(db);
    await sql`CREATE INDEX enrollment_expires_at ON enrollment (expires_at)`.execute(db);
    await sql`CREATE INDEX api_session_certificate_valid_to ON api_session_certificate (valid_to)`.execute(db);
  },
};
