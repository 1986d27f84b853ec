import { sql } from "kysely";
import type { Migration } from "../upgrade/migration.ts";

/**
 * Since when a process has its lease. The table of leases is empty after a crash of the database or a failover: then no row is old, and who is missing may still
 * work (docs/protocol/replicas.md, "Upgrades").
 */
export const leaseBeginnings: Migration = {
  id: "0044_lease_beginnings",
  kind: "expands",
  async up(db) {
    await sql`ALTER TABLE replica_lease ADD COLUMN began_at timestamptz NOT NULL DEFAULT clock_timestamp()`.execute(db);
  },
};
