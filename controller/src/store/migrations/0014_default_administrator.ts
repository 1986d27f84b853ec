import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/**
 * Makes `is_admin` the one column that says who is an administrator. Restores it for a default administrator who lost it, and ends that identity's API
 * sessions.
 */
export const defaultAdministrator: Migration = {
  id: "0014_default_administrator",
  kind: "contracts",
  worksFrom: 14,
  async up(db) {
    await sql`DELETE FROM api_session a USING identity i
      WHERE i.id = a.identity_id AND i.is_default_admin AND NOT i.is_admin`.execute(db);
    await sql`UPDATE identity SET is_admin = true WHERE is_default_admin AND NOT is_admin`.execute(db);
    await sql`ALTER TABLE identity ADD CONSTRAINT identity_default_admin_is_admin CHECK (is_admin OR NOT is_default_admin)`.execute(
      db,
    );
  },
};
