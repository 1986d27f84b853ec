import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/** When the device of an API session woke up, and was unlocked, as far as its client has reported it: every controller of a network has to know. */
export const wokenSessions: Migration = {
  id: "0031_woken_sessions",
  kind: "expands",
  async up(db) {
    await sql`ALTER TABLE api_session ADD COLUMN woken_at timestamptz(3), ADD COLUMN unlocked_at timestamptz(3)`.execute(
      db,
    );
  },
};
