import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/**
 * `circuit_owner` names, for each circuit that a controller has taken over, the process that answers for it (docs/protocol/replicas.md, "Circuits"). A circuit
 * without a row belongs to the process that made it.
 *
 * `link_setting` holds what administrators have set of links, for all controllers of a network that has several.
 */
export const circuitOwners: Migration = {
  id: "0042_circuit_owners",
  kind: "expands",
  async up(db) {
    await sql`
      CREATE TABLE circuit_owner (
        circuit_id text COLLATE "C" PRIMARY KEY,
        instance text COLLATE "C" NOT NULL,
        replica_id text COLLATE "C" NOT NULL,
        at timestamptz NOT NULL DEFAULT now()
      )`.execute(db);
    await sql`CREATE INDEX circuit_owner_instance ON circuit_owner (instance)`.execute(db);
    await sql`
      CREATE TABLE link_setting (
        link_id text COLLATE "C" PRIMARY KEY,
        static_cost integer NOT NULL,
        is_down boolean NOT NULL
      )`.execute(db);
    for (const table of ["circuit_owner", "link_setting"]) {
      await sql`CREATE TRIGGER require_epoch BEFORE INSERT OR UPDATE OR DELETE ON ${sql.table(table)}
        FOR EACH STATEMENT EXECUTE FUNCTION require_epoch()`.execute(db);
    }
  },
};
