import { sql } from "kysely";
import type { Migration } from "../migrate.ts";

/**
 * Who is an administrator is one column, `is_admin`: the default administrator has it, too. One that had lost it is put right; its API sessions end, as those of
 * anybody who becomes an administrator.
 */
export const defaultAdministrator: Migration = {
  id: "0014_default_administrator",
  async up(db) {
    await sql`DELETE FROM api_session a USING identity i
      WHERE i.id = a.identity_id AND i.is_default_admin AND NOT i.is_admin`.execute(db);
    await sql`UPDATE identity SET is_admin = true WHERE is_default_admin AND NOT is_admin`.execute(db);
    await sql`ALTER TABLE identity ADD CONSTRAINT identity_default_admin_is_admin CHECK (is_admin OR NOT is_default_admin)`.execute(
      db,
    );
  },
};
