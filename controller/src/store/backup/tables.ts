import type pg from "pg";
import { INSTANCE_ID } from "../instance-id.ts";

/** A table as a backup keeps it: its columns without those that the database computes. */
export interface BackupTable {
  readonly name: string;
  readonly columns: readonly string[];
}

/**
 * Not kept: the change log (it serves programs that run, and names transactions of one server), who works on the database (without it a restored one
 * begins a new life), which circuits they have, the record of migrations (the manifest lists them, and restoring applies them), logins in progress, and failed
 * attempts.
 */
const MIGRATIONS = "schema_migration";
const LEFT_OUT = [
  "change_log",
  MIGRATIONS,
  "controller_epoch",
  "oidc_login",
  "failed_attempt",
  "replica_lease",
  "model_change",
  "replica",
  "circuit_owner",
];

/** Tables whose rows belong to one life of a database: a restore removes them. */
export const OF_ONE_LIFE: readonly string[] = LEFT_OUT.filter((table) => table !== MIGRATIONS);

/** Whether backups hold the rows of this table. */
export function isInBackups(table: string): boolean {
  return !LEFT_OUT.includes(table);
}

/** Settings that mean something in one server only. */
export const LEFT_OUT_SETTINGS = ["change-log-pruned", INSTANCE_ID];

/** Every table of the schema, such that what a table refers to comes before it, but for references that can be deferred. */
export async function tablesInOrder(client: pg.ClientBase): Promise<BackupTable[]> {
  const { rows: tables } = await client.query<{ name: string; columns: string[] }>(
    `SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
     WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> ALL ($1::text[])
     GROUP BY c.relname ORDER BY c.relname`,
    [LEFT_OUT],
  );
  const { rows: references } = await client.query<{ from: string; to: string }>(
    `SELECT DISTINCT f.relname AS from, t.relname AS to FROM pg_constraint k
     JOIN pg_class f ON f.oid = k.conrelid JOIN pg_class t ON t.oid = k.confrelid
     WHERE k.contype = 'f' AND k.conrelid <> k.confrelid AND NOT k.condeferrable`,
  );
  const waiting = new Map(tables.map((table) => [table.name, table]));
  const ordered: BackupTable[] = [];
  while (waiting.size > 0) {
    const free = [...waiting.values()].filter(
      ({ name }) => !references.some(({ from, to }) => from === name && waiting.has(to)),
    );
    // Tables that refer to each other in a circle: any order; the database then says which reference does not hold.
    for (const table of free.length > 0 ? free : [...waiting.values()]) {
      ordered.push(table);
      waiting.delete(table.name);
    }
  }
  return ordered;
}

/** A name as it stands in SQL. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function columnList({ columns }: BackupTable): string {
  return columns.map(quoted).join(", ");
}
