import { type Kysely, sql } from "kysely";
import type { Migration } from "../../upgrade/migration.ts";

/**
 * The TOTP enrollment of an identity: at most one each. The shared secret and the recovery codes lie sealed (`store/secrets.ts`); the step that was used last
 * tells a repeated code. An API session knows when TOTP was last passed in it, for checks that let this time out. A posture check counts its versions.
 */
export const mfa: Migration = {
  id: "0003_mfa",
  kind: "expands",
  async up(db: Kysely<unknown>): Promise<void> {
    for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
  },
};

const STATEMENTS: readonly string[] = [
  `CREATE TABLE mfa (
    identity_id text COLLATE "C" PRIMARY KEY REFERENCES identity (id) ON DELETE CASCADE,
    id text COLLATE "C" NOT NULL UNIQUE,
    is_verified boolean NOT NULL DEFAULT false,
    secret bytea NOT NULL,
    recovery_codes bytea NOT NULL,
    last_step integer,
    last_step_session text COLLATE "C",
    created_at timestamptz(3) NOT NULL DEFAULT now(),
    updated_at timestamptz(3) NOT NULL DEFAULT now()
  )`,
  `ALTER TABLE api_session ADD COLUMN mfa_passed_at timestamptz(3)`,
  `ALTER TABLE posture_check ADD COLUMN version integer NOT NULL DEFAULT 0`,
];
