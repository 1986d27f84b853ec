import { type Kysely, sql } from "kysely";
import type { Database } from "./schema.ts";

/** Name of the setting that holds it. A new life of the database removes it (postgres/epoch.ts), and backups leave it out. */
export const INSTANCE_ID = "instance-id";

/**
 * The `ziti-instance-id` of the network, the same from every controller and after a restart: clients that see another one report their posture again. The
 * first controller of a life of the database makes it, of the id that it proposes.
 */
export async function networkInstanceId(db: Kysely<Database>, proposed: string): Promise<string> {
  const { rows } = await sql<{ value: string }>`
    INSERT INTO setting (name, value) VALUES (${INSTANCE_ID}, to_jsonb(${proposed}::text))
    ON CONFLICT (name) DO UPDATE SET value = setting.value RETURNING value #>> '{}' AS value`.execute(db);
  return rows[0]?.value ?? proposed;
}
