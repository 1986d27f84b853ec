import { sql } from "kysely";
import type { Migration } from "../../upgrade/migration.ts";

/** Until when a certificate that was issued in an extension counts beside the one in force, before it is confirmed; null: not at all. */
export const overlappingExtensions: Migration = {
  id: "0012_overlapping_extensions",
  kind: "expands",
  async up(db) {
    await sql`ALTER TABLE authenticator ADD COLUMN unverified_counts_until timestamptz(3)`.execute(db);
    await sql`CREATE INDEX authenticator_overlap ON authenticator (unverified_fingerprint)
      WHERE unverified_counts_until IS NOT NULL`.execute(db);
  },
};
