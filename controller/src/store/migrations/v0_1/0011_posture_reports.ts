import { sql } from "kysely";
import type { Migration } from "../../upgrade/migration.ts";

/**
 * What the devices of an identity reported last. `json`, not `jsonb`: the texts come from clients, and `jsonb` refuses some that JSON can hold (U+0000, half a
 * surrogate pair); nothing looks into it. `seen_at` is the last report, or a later day on which the identity still had an API session.
 */
export const postureReports: Migration = {
  id: "0011_posture_reports",
  kind: "expands",
  async up(db) {
    await sql`CREATE TABLE posture_report (
      identity_id text COLLATE "C" PRIMARY KEY REFERENCES identity (id) ON DELETE CASCADE,
      report json NOT NULL,
      seen_at timestamptz(3) NOT NULL
    ) WITH (fillfactor = 80)`.execute(db);
  },
};
