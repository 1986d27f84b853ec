import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/** The TOTP step whose code completed the enrollment, until a login has used that code once more. */
export const enrollmentCode: Migration = {
  id: "0015_enrollment_code",
  kind: "expands",
  async up(db) {
    await sql`ALTER TABLE mfa ADD COLUMN enrollment_step integer`.execute(db);
  },
};
