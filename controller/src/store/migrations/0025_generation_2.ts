import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/** What OpenZiti 2.x added to the model: what configs of a type are for, configs of routers, and sessions whose token is a signed text. */
export const generation2: Migration = {
  id: "0025_generation_2",
  kind: "expands",
  async up(db) {
    await sql`ALTER TABLE config_type
      ADD COLUMN target text COLLATE "C" NOT NULL DEFAULT 'service' CHECK (target IN ('service', 'router', 'other'))`.execute(
      db,
    );
    await sql`CREATE TABLE router_config (
      router_id text COLLATE "C" NOT NULL REFERENCES router (id) ON DELETE CASCADE,
      config_type_id text COLLATE "C" NOT NULL,
      config_id text COLLATE "C" NOT NULL,
      PRIMARY KEY (router_id, config_type_id),
      FOREIGN KEY (config_id, config_type_id) REFERENCES config (id, config_type_id)
    )`.execute(db);
    await sql`CREATE INDEX router_config_config ON router_config (config_id)`.execute(db);
    await sql`CREATE TRIGGER require_epoch BEFORE INSERT OR UPDATE OR DELETE ON router_config
      FOR EACH STATEMENT EXECUTE FUNCTION require_epoch()`.execute(db);
    // In a B-tree, a key of 650 bytes takes more room than the rest of the row. Tokens are random or signed, so they need no unique index.
    await sql`ALTER TABLE session DROP CONSTRAINT session_token_key`.execute(db);
    await sql`CREATE INDEX session_token ON session USING hash (token)`.execute(db);
  },
};
