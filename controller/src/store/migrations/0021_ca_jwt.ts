import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/** The token with which holders of an authority's certificates enroll, as it was signed first: each signature would be another text. */
export const caJwt: Migration = {
  id: "0021_ca_jwt",
  kind: "expands",
  async up(db) {
    await sql`ALTER TABLE ca ADD COLUMN jwt text`.execute(db);
  },
};
