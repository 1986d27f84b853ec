import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { link, open, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { finished } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { Logger } from "@sallyport/wire";
import type pg from "pg";
import { to as copyTo } from "pg-copy-streams";
import { watchLongWork } from "../postgres/long-work.ts";
import { withClient } from "../postgres/store-client.ts";
import { reasonOf } from "../postgres/store-error.ts";
import { SCHEMA_LOCK } from "../replicas/lease.ts";
import { BackupEncoder, BackupError, FORMAT, FORMAT_VERSION } from "./backup-file.ts";
import { type BackupTable, columnList, LEFT_OUT_SETTINGS, quoted, tablesInOrder } from "./tables.ts";

export interface BackupOptions {
  readonly connection: pg.ClientConfig;
  /** Where to write, in a folder that exists. A file that exists is never replaced. */
  readonly file: string;
  readonly signal?: AbortSignal;
  /** How long the server may take to answer a short query; default five seconds. */
  readonly answerMs?: number;
  readonly log?: Logger;
}

/** What was written. */
export interface BackupReport {
  readonly tables: number;
  readonly rows: number;
  /** Size of the file. */
  readonly bytes: number;
}

/** Text forms that do not depend on settings of the server or the user. */
const SESSION = [
  "SET statement_timeout = 0",
  "SET timezone = 'UTC'",
  "SET datestyle = 'ISO'",
  "SET intervalstyle = 'iso_8601'",
  "SET bytea_output = 'hex'",
  "SET extra_float_digits = 3",
  "SET client_encoding = 'UTF8'",
];

/**
 * Writes the content of the database at one moment into one file: in one REPEATABLE READ transaction, which blocks no other work. The file appears under its
 * name when it is complete and on disk, readable by its owner only. Sealed values stay sealed in it.
 * @throws BackupError when the file exists or cannot be written, or the database does not hold this controller's schema
 */
export async function writeBackup({ connection, file, signal, answerMs, log }: BackupOptions): Promise<BackupReport> {
  await requireFolder(file);
  if (await stat(file).catch(() => undefined)) throw exists(file);
  const partial = join(dirname(file), `.backup-${randomBytes(6).toString("hex")}.partial`);
  try {
    const { rows, tables } = await withClient(
      { ...connection, application_name: "sallyport backup" },
      async (client) => {
        const disk = { isAwaited: false };
        await watchLongWork(client, connection, { answerMs, isWaitingForServer: () => !disk.isAwaited, log });
        const stop = () => void client.end();
        signal?.addEventListener("abort", stop, { once: true });
        try {
          return await dump(client, partial, disk);
        } finally {
          signal?.removeEventListener("abort", stop);
        }
      },
    );
    signal?.throwIfAborted();
    await sync(partial);
    // A link, not a rename: of two that write the same name, one must fail.
    await link(partial, file).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code === "EEXIST") throw exists(file);
      await rename(partial, file);
    });
    return { tables, rows, bytes: (await stat(file)).size };
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof BackupError) throw error;
    throw new BackupError(`the backup ${file} could not be made: ${reasonOf(error)}`, { cause: error });
  } finally {
    await rm(partial, { force: true });
  }
}

async function requireFolder(file: string): Promise<void> {
  const folder = dirname(file);
  const found = await stat(folder).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) {
    if (found.code === "ENOENT") throw new BackupError(`the folder ${folder} does not exist: create it first`);
    throw new BackupError(`the folder ${folder} cannot be used (${found.code})`, { cause: found });
  }
  if (!found.isDirectory()) throw new BackupError(`${folder} is not a folder: choose another place for the backup`);
}

async function dump(
  client: pg.Client,
  partial: string,
  disk: { isAwaited: boolean },
): Promise<{ tables: number; rows: number }> {
  for (const setting of SESSION) await client.query(setting);
  // What a migration rewrites would be empty in the transaction's snapshot. Before that: the snapshot must not be older than the lock.
  await client.query("SELECT pg_advisory_lock_shared($1, $2)", [...SCHEMA_LOCK]);
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
  const { rows: facts } = await client.query<{ at: Date; server: string; hasSchema: boolean }>(
    `SELECT now() AS at, current_setting('server_version') AS server, to_regclass('public.schema_migration') IS NOT NULL AS "hasSchema"`,
  );
  const [fact] = facts;
  if (!fact?.hasSchema) throw new BackupError("the database holds no network: there is nothing to back up");
  const { rows: done } = await client.query<{ id: string }>("SELECT id FROM schema_migration ORDER BY id");
  const tables = await tablesInOrder(client);
  const encoder = new BackupEncoder();
  const zip = createGzip({ level: 6 });
  const target = createWriteStream(partial, { flags: "wx", mode: 0o600 });
  const written = finished(target);
  // A failure is thrown where the next piece is written.
  written.catch(() => undefined);
  target.on("error", (error) => zip.destroy(error));
  zip.on("error", () => undefined);
  zip.pipe(target);
  const put = async (bytes: Buffer) => {
    disk.isAwaited = true;
    if (zip.destroyed) await written;
    if (!zip.write(bytes)) await once(zip, "drain");
    disk.isAwaited = false;
  };
  let total = 0;
  try {
    await put(
      encoder.record({
        format: FORMAT,
        version: FORMAT_VERSION,
        at: fact.at.toISOString(),
        server: fact.server,
        migrations: done.map(({ id }) => id),
        tables: tables.map(({ name, columns }) => ({ name, columns: [...columns] })),
      }),
    );
    for (const table of tables) {
      await put(encoder.record({ table: table.name }));
      const copy = client.query(copyTo(`COPY (${selectOf(table)}) TO STDOUT`));
      for await (const chunk of copy) await put(encoder.bytes(chunk as Buffer));
      // The number of rows comes behind the last of them, perhaps in another packet.
      await client.query("SELECT 1");
      await put(encoder.record({ end: table.name, rows: copy.rowCount }));
      total += copy.rowCount;
    }
    await put(encoder.seal());
    zip.end();
    await written;
  } catch (error) {
    zip.destroy();
    target.destroy();
    throw error;
  }
  await client.query("COMMIT");
  return { tables: tables.length, rows: total };
}

function selectOf(table: BackupTable): string {
  const names = LEFT_OUT_SETTINGS.map((name) => `'${name}'`).join(", ");
  const where = table.name === "setting" ? ` WHERE name NOT IN (${names})` : "";
  return `SELECT ${columnList(table)} FROM ${quoted(table.name)}${where}`;
}

async function sync(file: string): Promise<void> {
  for (const path of [file, dirname(file)]) {
    const handle = await open(path, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}

function exists(file: string): BackupError {
  return new BackupError(`${file} exists already, and a backup never replaces a file: give another name`, {
    code: "EXISTS",
  });
}
