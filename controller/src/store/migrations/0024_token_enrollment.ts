import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/**
 * External JWT signers whose users may enroll themselves: what for, and which claims name the new identity and its attributes. Auth policies name signers, too:
 * one of the two references can be deferred, so that a backup can be loaded table by table.
 */
export const tokenEnrollment: Migration = {
  id: "0024_token_enrollment",
  kind: "expands",
  async up(db) {
    await sql`ALTER TABLE ext_jwt_signer
      ADD COLUMN enroll_to_cert boolean NOT NULL DEFAULT false,
      ADD COLUMN enroll_to_token boolean NOT NULL DEFAULT false,
      ADD COLUMN enroll_name_claim text COLLATE "C",
      ADD COLUMN enroll_attribute_claim text COLLATE "C",
      ADD COLUMN enroll_auth_policy_id text COLLATE "C" REFERENCES auth_policy (id) DEFERRABLE`.execute(db);
    await sql`CREATE INDEX ext_jwt_signer_enroll_auth_policy ON ext_jwt_signer (enroll_auth_policy_id)`.execute(db);
  },
};
