import { type Kysely, sql } from "kysely";
import type { Migration } from "../../upgrade/migration.ts";

/** Each enrollment names the certificate (its fingerprint) whose key signed its token, so that those of a former one can be found. */
export const enrollment: Migration = {
  id: "0005_enrollment",
  kind: "expands",
  async up(db: Kysely<unknown>): Promise<void> {
    for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
  },
};

const STATEMENTS: readonly string[] = [
  `ALTER TABLE enrollment ADD COLUMN signer text COLLATE "C" NOT NULL DEFAULT ''`,
  `CREATE INDEX enrollment_of_ca ON enrollment (ca_id) WHERE ca_id IS NOT NULL`,
  `CREATE INDEX authenticator_of_ca ON authenticator (ca_id) WHERE ca_id IS NOT NULL`,
  `CREATE INDEX api_session_authenticator ON api_session (authenticator_id)`,
];
