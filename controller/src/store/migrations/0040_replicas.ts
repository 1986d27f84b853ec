import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/**
 * Several controllers on one database (docs/protocol/replicas.md).
 *
 * `replica_lease` is unlogged: a row lives for seconds, and after a crash or a failover every process writes its row again.
 *
 * `replica` holds where each process is reached. The setting `replica-set` numbers the set.
 *
 * `model_change` holds changes of the router data model as the leader made them. A new life empties it.
 *
 * `controller_epoch.life` names the life of the database (docs/protocol/store.md, "A new life"): numbers of transactions mean nothing in another one.
 */
export const replicas: Migration = {
  id: "0040_replicas",
  kind: "expands",
  async up(db) {
    await sql`
      CREATE UNLOGGED TABLE replica_lease (
        instance text COLLATE "C" PRIMARY KEY,
        replica_id text COLLATE "C" NOT NULL,
        name text NOT NULL,
        pid integer NOT NULL,
        leads boolean NOT NULL,
        until timestamptz NOT NULL
      )`.execute(db);
    await sql`
      CREATE TABLE model_change (
        index bigint PRIMARY KEY,
        timeline text COLLATE "C" NOT NULL,
        previous bigint NOT NULL,
        snapshot text NOT NULL,
        unlogged text NOT NULL,
        body bytea,
        at timestamptz NOT NULL DEFAULT now()
      )`.execute(db);
    await sql`
      CREATE TABLE replica (
        id text COLLATE "C" PRIMARY KEY,
        api_address text NOT NULL,
        ctrl_address text NOT NULL,
        fingerprint text NOT NULL,
        version text NOT NULL,
        started_at timestamptz(3) NOT NULL,
        seen_at timestamptz NOT NULL DEFAULT now()
      )`.execute(db);
    for (const table of ["replica_lease", "model_change", "replica"]) {
      await sql`CREATE TRIGGER require_epoch BEFORE INSERT OR UPDATE OR DELETE ON ${sql.table(table)}
        FOR EACH STATEMENT EXECUTE FUNCTION require_epoch()`.execute(db);
    }
    await sql`ALTER TABLE controller_epoch ADD COLUMN life text COLLATE "C" NOT NULL DEFAULT gen_random_uuid()::text`.execute(
      db,
    );
  },
};
