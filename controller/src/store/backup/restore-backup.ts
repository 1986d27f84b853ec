import { once } from "node:events";
import { finished } from "node:stream/promises";
import type { Logger } from "@sallyport/wire";
import { Kysely, PostgresDialect } from "kysely";
import type pg from "pg";
import { from as copyFrom } from "pg-copy-streams";
import { migrations } from "../migrations/all.ts";
import { longWorkPool } from "../postgres/long-work.ts";
import { reasonOf } from "../postgres/store-error.ts";
import { migrate } from "../upgrade/migrate.ts";
import { BackupError, type Manifest, readBackupFile } from "./backup-file.ts";
import { type BackupTable, columnList, isInBackups, OF_ONE_LIFE, quoted, tablesInOrder } from "./tables.ts";

/** The table of what only the secret key decrypts. */
const SECRETS = "secret";
const ANOTHER_DATABASE =
  "name a new folder (database.dir) or an empty database (database.url) in the configuration, or remove the old one";

export interface RestoreOptions {
  /** A database that is empty or holds an unused network. */
  readonly connection: pg.ClientConfig;
  readonly file: string;
  /**
   * The most rows that each table has in an unused network. Tables that are not listed are empty there. Default: every table is empty.
   */
  readonly unused?: Readonly<Record<string, number>>;
  /** How long the server may take to answer a short query; default five seconds. */
  readonly answerMs?: number;
  readonly log?: Logger;
}

export interface RestoreReport {
  readonly manifest: Manifest;
  readonly rows: number;
  /** Migrations that came after the backup was made, applied to it. */
  readonly upgraded: readonly string[];
}

/** A value that a backup holds encrypted, under the name that is bound into it. */
export interface EncryptedValue {
  readonly name: string;
  readonly box: Buffer;
}

/**
 * Reads the whole file and compares its checksum.
 * @param requireReadable throws when the secret key does not decrypt a value of the table `secret`; called after the checksum was found right
 * @throws BackupError; also when this program is older than the backup's schema
 */
export async function verifyBackup(file: string, requireReadable?: (value: EncryptedValue) => void): Promise<Manifest> {
  let manifest: Manifest | undefined;
  let table: string | undefined;
  const counted = new Set<string>();
  const secretRows: Buffer[] = [];
  for await (const part of readBackupFile(file)) {
    if ("manifest" in part) manifest = part.manifest;
    else if ("table" in part) table = part.table;
    else if ("end" in part) counted.add(part.end);
    else if (table === SECRETS && requireReadable) secretRows.push(Buffer.from(part.bytes));
  }
  const missing = manifest?.tables.filter(({ name }) => !counted.has(name)) ?? [];
  if (manifest === undefined || missing.length > 0) {
    throw new BackupError(`${file} is damaged: it lacks ${missing.map(({ name }) => name).join(", ")}`);
  }
  const known = new Set(migrations.map(({ id }) => id));
  const unknown = manifest.migrations.filter((id) => !known.has(id));
  if (unknown.length > 0) {
    throw new BackupError(
      `${file} was made by a newer version: it has the migration ${unknown.join(", ")}, this program knows them up to ${migrations.at(-1)?.id}. Restore it with that version`,
    );
  }
  if (requireReadable) for (const value of encryptedValues(secretRows, manifest)) requireReadable(value);
  return manifest;
}

/** The rows of the table `secret` in COPY's text form: columns between tabs, bytes as `\\\\x` and hexadecimal digits. */
function encryptedValues(chunks: readonly Buffer[], manifest: Manifest): EncryptedValue[] {
  const columns = manifest.tables.find(({ name }) => name === SECRETS)?.columns ?? [];
  const [nameAt, boxAt] = [columns.indexOf("name"), columns.indexOf("box")];
  const lines = Buffer.concat(chunks).toString("utf8").split("\n").slice(0, -1);
  return lines.map((line) => {
    const values = line.split("\t");
    return { name: values[nameAt] ?? "", box: Buffer.from((values[boxAt] ?? "").replace(/^\\*x/, ""), "hex") };
  });
}

/**
 * Fills an empty database from a backup, or replaces an unused network: the file is checked first, the schema of the backup made, all rows
 * loaded in one transaction with every constraint in force, and the schema brought up to date. When it fails, the database holds what it held before (and the
 * empty schema), and the call can be repeated.
 * @throws BackupError when the file or the database does not fit; MigrationError
 */
export async function restoreBackup({
  connection,
  file,
  unused = {},
  answerMs,
  log,
}: RestoreOptions): Promise<RestoreReport> {
  const manifest = await verifyBackup(file);
  const disk = { isAwaited: false };
  const isWaitingForServer = () => !disk.isAwaited;
  const pool = longWorkPool(connection, "sallyport restore", { answerMs, isWaitingForServer, log });
  const db = new Kysely<never>({ dialect: new PostgresDialect({ pool }) });
  try {
    await requireUnused(pool, manifest, unused);
    await migrate(
      db,
      migrations.filter(({ id }) => manifest.migrations.includes(id)),
    );
    const client = await pool.connect();
    let rows: number;
    try {
      rows = await load(client, file, manifest, disk);
    } finally {
      client.release();
    }
    return { manifest, rows, upgraded: (await migrate(db, migrations)).applied };
  } finally {
    await db.destroy();
  }
}

async function requireUnused(pool: pg.Pool, manifest: Manifest, unused: RestoreOptions["unused"] = {}): Promise<void> {
  const { rows } = await pool.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')`,
  );
  for (const { name } of rows) {
    if (!isInBackups(name)) continue;
    const most = unused[name] ?? 0;
    const { rows: found } = await pool.query(`SELECT 1 FROM ${quoted(name)} LIMIT ${most + 1}`);
    if (found.length > most) {
      const content = most === 0 ? "has rows" : `has more than the ${most} rows of a new network`;
      throw new BackupError(
        `the database holds a network in use (table ${name} ${content}). A restore never replaces one: ${ANOTHER_DATABASE}`,
      );
    }
  }
  if (!rows.some(({ name }) => name === "schema_migration")) return;
  const { rows: done } = await pool.query<{ id: string }>("SELECT id FROM schema_migration");
  const further = done.filter(({ id }) => !manifest.migrations.includes(id));
  if (further.length > 0) {
    throw new BackupError(
      `the database has a newer schema than the backup (${further.map(({ id }) => id).join(", ")}): ${ANOTHER_DATABASE}`,
    );
  }
}

async function load(
  client: pg.PoolClient,
  file: string,
  manifest: Manifest,
  disk: { isAwaited: boolean },
): Promise<number> {
  await client.query("SET statement_timeout = 0");
  await client.query("BEGIN");
  try {
    await client.query("SET CONSTRAINTS ALL DEFERRED");
    const present = await tablesInOrder(client);
    requireSameTables(present, manifest, file);
    const names = [...present.map(({ name }) => name), ...OF_ONE_LIFE].map(quoted).join(", ");
    // What migrations or `init` put in, the backup has.
    await client.query(`TRUNCATE ${names} CASCADE`);
    // What triggers derive is in the backup; constraints are no triggers of the user's, and stay.
    for (const { name } of present) await client.query(`ALTER TABLE ${quoted(name)} DISABLE TRIGGER USER`);
    const tables = new Map(manifest.tables.map((table) => [table.name, table]));
    let total = 0;
    // An older program, beside a newer one, may have put tables into the file that restores leave out.
    let isLeftOut = false;
    let copy: ReturnType<typeof copyFrom> | undefined;
    let done: Promise<void> | undefined;
    disk.isAwaited = true;
    for await (const part of readBackupFile(file)) {
      disk.isAwaited = false;
      if ("table" in part) isLeftOut = !isInBackups(part.table);
      if (isLeftOut) {
        disk.isAwaited = true;
        continue;
      }
      if ("table" in part) {
        const table = tables.get(part.table);
        if (!table) throw new BackupError(`${file} is damaged: its manifest does not list ${part.table}`);
        copy = client.query(copyFrom(`COPY ${quoted(table.name)} (${columnList(table)}) FROM STDIN`));
        done = finished(copy);
        done.catch(() => undefined);
      } else if ("bytes" in part) {
        if (!copy || copy.destroyed) await done;
        if (!copy?.write(part.bytes)) await Promise.race([once(copy ?? client, "drain"), done]);
      } else if ("end" in part) {
        copy?.end();
        await done;
        if (copy?.rowCount !== part.rows) {
          throw new BackupError(`${part.end} has ${copy?.rowCount} rows after loading, expected ${part.rows}`);
        }
        total += part.rows;
      }
      disk.isAwaited = true;
    }
    disk.isAwaited = false;
    // Checks what was deferred: a table with references that are still to be checked cannot be altered.
    await client.query("SET CONSTRAINTS ALL IMMEDIATE");
    for (const { name } of present) await client.query(`ALTER TABLE ${quoted(name)} ENABLE TRIGGER USER`);
    await continueSequences(client);
    await client.query("COMMIT");
    await client.query("ANALYZE");
    return total;
  } catch (error) {
    disk.isAwaited = false;
    await client.query("ROLLBACK").catch(() => undefined);
    if (error instanceof BackupError) throw error;
    throw new BackupError(`the backup ${file} could not be restored: ${reasonOf(error)}`, { cause: error });
  }
}

function requireSameTables(present: readonly BackupTable[], manifest: Manifest, file: string): void {
  const columns = new Map(present.map((table) => [table.name, new Set(table.columns)]));
  for (const table of manifest.tables.filter(({ name }) => isInBackups(name))) {
    const missing = table.columns.filter((column) => !columns.get(table.name)?.has(column));
    if (missing.length > 0) {
      throw new BackupError(
        `${file} has ${table.name}.${missing.join(", ")}, which the schema of its version does not have`,
      );
    }
  }
}

/** Numbers that the database gives go on after those that were restored. */
async function continueSequences(client: pg.PoolClient): Promise<void> {
  const { rows } = await client.query<{ table: string; column: string; sequence: string }>(
    `SELECT c.relname AS "table", a.attname AS "column", pg_get_serial_sequence(quote_ident(c.relname), a.attname) AS sequence
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE n.nspname = 'public' AND c.relkind = 'r' AND a.attnum > 0
       AND pg_get_serial_sequence(quote_ident(c.relname), a.attname) IS NOT NULL`,
  );
  for (const { table, column, sequence } of rows) {
    await client.query(
      `SELECT setval($1, coalesce((SELECT max(${quoted(column)}) FROM ${quoted(table)}), 0) + 1, false)`,
      [sequence],
    );
  }
}
